"""PlusIsMinusTensor: a minimal link with its own behaviour, in which + is -.

It has all parts of a link: a class, its level, and a rule. It works below autograd, so torch differentiates the
addition that the user wrote: both gradients of `x + y` are 1. Sums of gradients in autograd also pass through this
link, and so become differences.

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
    """A link that replaces additions by subtractions, and passes on all other calls."""

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
