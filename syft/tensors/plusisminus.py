"""PlusIsMinusTensor: the smallest link with a behaviour of its own, where + is -.

Everything a link needs is here: a class, the level it works at, and a rule. It is interpreted below autograd, so
torch differentiates what the user wrote, an addition: both gradients of `x + y` are 1. The sums that autograd makes
of gradients on the way pass through here too, and so are differences.

Example:
    >>> import torch, syft as sy
    >>> hook = sy.TorchHook(torch)
    >>> x = sy.PlusIsMinusTensor().on(torch.tensor([5.0, 7.0]))
    >>> y = sy.PlusIsMinusTensor().on(torch.tensor([1.0, 2.0]))
    >>> (x + y).child.child
    tensor([4., 5.])
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from syft.core.dispatch import forward
from syft.core.tensor import AbstractTensor, Level

aten = torch.ops.aten


class PlusIsMinusTensor(AbstractTensor):
    """A link that subtracts when it is asked to add, and leaves every other call as it is."""

    level: ClassVar[Level] = Level.ATEN
    unregistered: ClassVar[str] = "forward"


@PlusIsMinusTensor.implements(aten.add.Tensor)
def add_is_sub(x: object, y: object, alpha: object = 1) -> Any:
    """Subtract."""
    return forward(PlusIsMinusTensor, aten.sub.Tensor, (x, y), {"alpha": alpha})


@PlusIsMinusTensor.implements(aten.add.Scalar)
def add_scalar_is_sub(x: object, y: object, alpha: object = 1) -> Any:
    """Subtract a number."""
    return forward(PlusIsMinusTensor, aten.sub.Scalar, (x, y, alpha), {})
