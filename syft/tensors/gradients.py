"""GradFunc: the nodes of the graph of gradients, as `x.child.grad_fn` of an AutogradTensor shows them.

torch builds the graph and computes the gradients; a GradFunc is a view of one of torch's nodes, under the name that the
node had in 0.2.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch


class GradFunc:
    """A node of the graph: it computes the gradients of the arguments of one call from the gradient of its result.

    Args:
        node: the node of torch, `tensor.grad_fn`.
    """

    # The name of a node in torch, without its number -> its class here.
    kinds: ClassVar[dict[str, type[GradFunc]]] = {}

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        GradFunc.kinds[cls.__name__] = cls

    def __init__(self, node: Any) -> None:
        self.node = node

    @staticmethod
    def of(node: Any) -> Any:
        """Return the view of a node; an Accumulate for a leaf, None for None."""
        if node is None:
            return None
        if hasattr(node, "variable"):
            return Accumulate(node.variable)
        name = type(node).__name__.rstrip("0123456789")
        return GradFunc.kinds.get(_ALIASES.get(name, name), GradFunc)(node)

    @property
    def next_functions(self) -> tuple[Any, ...]:
        """The nodes of the arguments; None for an argument without a gradient."""
        return tuple(GradFunc.of(node) for node, _ in self.node.next_functions)

    def gradient(self, grad: torch.Tensor) -> tuple[Any, ...]:
        """Return the gradient of each argument, from the gradient of the result."""
        found = self.node(grad)
        return found if isinstance(found, tuple) else (found,)

    __call__ = gradient

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.node.name()}>"


class Accumulate:
    """The node of a leaf: it adds a gradient to that of the leaf.

    Args:
        tensor: the leaf.
    """

    next_functions: tuple[Any, ...] = ()

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __call__(self, grad: torch.Tensor) -> tuple[()]:
        """Add a gradient."""
        with torch.no_grad():
            self.tensor.grad = grad if self.tensor.grad is None else self.tensor.grad + grad
        return ()


class AddBackward(GradFunc):
    """The gradient of a sum."""


class SubBackward(GradFunc):
    """The gradient of a difference."""


class SumBackward(GradFunc):
    """The gradient of sum()."""


class AsinBackward(GradFunc):
    """The gradient of asin()."""


class MulBackward(GradFunc):
    """The gradient of a product."""


class DivBackward(GradFunc):
    """The gradient of a quotient."""


class PowBackward(GradFunc):
    """The gradient of a power."""


class MatmulBackward(GradFunc):
    """The gradient of a matrix product."""


class TBackward(GradFunc):
    """The gradient of t()."""


class SigmoidBackward(GradFunc):
    """The gradient of sigmoid()."""


class SinBackward(GradFunc):
    """The gradient of sin()."""


class SinhBackward(GradFunc):
    """The gradient of sinh()."""


class SqrtBackward(GradFunc):
    """The gradient of sqrt()."""


class TanhBackward(GradFunc):
    """The gradient of tanh()."""


class ReluBackward(GradFunc):
    """The gradient of relu()."""


_ALIASES = {"MmBackward": "MatmulBackward", "BmmBackward": "MatmulBackward", "TransposeBackward": "TBackward"}


def forward_grad(tensor: Any) -> Any:
    """Return the node that computed a tensor; an Accumulate for a leaf that requires a gradient, else None."""
    if tensor.grad_fn is not None:
        return GradFunc.of(tensor.grad_fn)
    return Accumulate(tensor) if tensor.requires_grad else None


def apply_dim_transformations(
    grad_self: torch.Tensor, grad_other: torch.Tensor, self_shape: torch.Size, other_shape: torch.Size
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sum two gradients over the dimensions that were broadcast."""
    return grad_self.sum_to_size(self_shape), grad_other.sum_to_size(other_shape)


def backwards_grad(grad_fn: Any, in_grad: Any = None) -> None:
    """Compute the gradients of the leaves of a graph.

    Args:
        grad_fn: the node of the result, `x.child.grad_fn`.
        in_grad: the gradient of the result; a tensor.
    """
    if grad_fn is None:
        return
    if in_grad is None:
        raise ValueError("backwards_grad() needs the gradient of the result: backwards_grad(y.child.grad_fn, ones).")
    for node, grad in zip(grad_fn.next_functions, grad_fn(in_grad), strict=False):
        backwards_grad(node, grad)
