"""Let two tensor objects exchange their contents, also while autograd graphs hold on to the contents.

Variables, modules and optimizers keep the object; a graph keeps the content that it was computed from.
"""

from __future__ import annotations

import weakref
from typing import Any, NoReturn

import torch

from syft.exceptions import SyftError

_get_gradient_edge: Any = torch.autograd.graph.get_gradient_edge
_swap_contents: Any = torch._C._swap_tensor_impl


def swap_objects(first: torch.Tensor, second: torch.Tensor) -> None:
    """Exchange two tensors: values, class, attributes.

    A graph that was computed from either keeps the values it needs. A backward pass through it can't add to the
    gradient of the object any more, so it raises.

    Raises:
        RuntimeError: something holds a weak reference to one of them; nothing was changed.
    """
    if weakref.getweakrefcount(first) or weakref.getweakrefcount(second):
        raise RuntimeError("a weak reference to the tensor exists")
    # torch.utils.swap_tensors refuses contents that several nodes of a graph use, and changes the classes before it
    # finds that it can't go on.
    _swap_contents(first, second)
    first.__class__, second.__class__ = second.__class__, first.__class__
    first.__dict__, second.__dict__ = second.__dict__, first.__dict__
    for tensor in (first, second):
        _refuse_gradients(tensor)


def _refuse_gradients(tensor: Any) -> None:
    """Make backward passes fail that would add to the gradient of a content that has left its object."""
    with torch._C.DisableTorchFunctionSubclass():
        is_used = tensor._use_count() > 1 and torch.Tensor.requires_grad.__get__(tensor)  # type: ignore[attr-defined]
        if is_used and torch.Tensor.is_leaf.__get__(tensor):  # type: ignore[attr-defined]
            _get_gradient_edge(tensor).node.register_prehook(_refuse)


def _refuse(gradients: object) -> NoReturn:
    raise SyftError(
        "This backward pass reaches a tensor that was sent, fetched, encoded or shared in place since, maybe in "
        "its model. Compute the prediction and the loss again."
    )
