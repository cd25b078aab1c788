"""AutogradMark: a note on a tensor that its chain is shown with an AutogradTensor on top.

Pointers, encoded and shared tensors are differentiated by torch itself: at the worker that holds the data, or below
`__torch_function__`. The AutogradTensor over them is therefore a view. It takes no part in a call, so a marked tensor
is as fast as any other. Results of calls on marked tensors are marked too.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from syft.core.id_provider import ID_PROVIDER, ObjectId

# The key of a mark in the `__dict__` of a tensor.
KEY = "_syft_autograd"
# The key of the parameters of a sent module: their gradients are zeros where there are none.
ZERO_GRADIENT = "_syft_zero_gradient"
# These packages read the absence of a gradient: an optimizer does not step a parameter without one.
_READERS_OF_ABSENCE = ("torch", "syft")


class AutogradMark:
    """The fields of the AutogradTensor that a marked tensor shows.

    Args:
        id: its id; drawn at its first use if None.
        requires_grad: whether gradients were requested.
        preinitialize_grad: whether the gradient began with zeros.
        tags: its tags.
        description: its description.
        is_gradient: whether the tensor is the gradient of a marked tensor: `.get()` then fetches a copy of it.
    """

    __slots__ = ("_id", "description", "is_gradient", "preinitialize_grad", "requires_grad", "tags", "view")

    def __init__(
        self,
        id: ObjectId | None = None,
        requires_grad: bool = True,
        preinitialize_grad: bool = False,
        tags: set[str] | None = None,
        description: str | None = None,
        is_gradient: bool = False,
    ) -> None:
        self._id = id
        self.requires_grad = requires_grad
        self.preinitialize_grad = preinitialize_grad
        self.tags = tags if tags is not None else set()
        self.description = description
        self.is_gradient = is_gradient
        # The AutogradTensor that was shown last. It holds the tensor, so a strong reference would be a cycle.
        self.view: weakref.ref[Any] | None = None

    @property
    def id(self) -> ObjectId:
        """The id of the AutogradTensor."""
        if self._id is None:
            self._id = ID_PROVIDER.pop()
        return self._id

    def copy(self, keep_id: bool = False) -> AutogradMark:
        """Return the mark of another tensor with the same fields."""
        return AutogradMark(
            self.id if keep_id else None, self.requires_grad, self.preinitialize_grad, set(self.tags), self.description
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> AutogradMark:
        return self.copy()


def mark_of(tensor: torch.Tensor) -> AutogradMark | None:
    """Return the mark of a tensor, if it has one."""
    return tensor.__dict__.get(KEY)


def carry_marks(source: torch.Tensor, target: Any) -> Any:
    """Mark a tensor as its source is, with the same id; returns it."""
    noted = source.__dict__.get(KEY)
    if noted is not None:
        mark(target, noted.copy(keep_id=True))
    if ZERO_GRADIENT in source.__dict__:
        target.__dict__[ZERO_GRADIENT] = True
    return target


def make_zero_gradient(tensor: Any, reader: str) -> Any:
    """Give a parameter of a sent module a gradient of zeros, and return it; None if `reader` reads its absence.

    Args:
        tensor: a parameter without a gradient.
        reader: the name of the module whose code reads the gradient.
    """
    if reader.partition(".")[0] in _READERS_OF_ABSENCE or not tensor.requires_grad:
        return None
    tensor.grad = torch.zeros_like(tensor).detach()
    return tensor.grad


def mark(tensor: Any, made: AutogradMark | None = None) -> Any:
    """Mark a tensor, unless it is marked; returns it."""
    if KEY not in tensor.__dict__:
        tensor.__dict__[KEY] = AutogradMark() if made is None else made
    return tensor
