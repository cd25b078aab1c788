"""Quotients of links in formats that the division protocol supports; x / 0 is 0, plain or shared."""

from __future__ import annotations

import torch

from syft.mpc.rules.division import quotient
from syft.mpc.rules.gradients import coarser
from syft.mpc.rules.operands import FixedPointFormat
from syft.mpc.rules.types import Term, Value
from syft.mpc.values import ring_ops

# Quotients have no finer units: the protocol supports scales up to 2^40, with an odd part up to 2^24.
QUOTIENT_BITS = 34


def divided(dividend: Term, divisor: Term, scale: int) -> Value:
    """Return dividend scale / divisor, and 0 where the divisor is zero."""
    if ring_ops.is_shared(dividend) or ring_ops.is_shared(divisor):
        return quotient(dividend, divisor, scale)
    dividend, divisor = ring_ops.as_tensor(dividend), ring_ops.as_tensor(divisor)
    safe = torch.where(divisor == 0, 1, divisor).double()
    return torch.where(divisor == 0, 0, (dividend.double() * scale / safe).round().long())


def quotient_in(fmt: FixedPointFormat, dividend: Term, divisor: Term) -> Value:
    """Return the quotient of integers with the same units, as integers of a format."""
    if fmt.scale <= 1 << QUOTIENT_BITS or fmt.model is None:
        return divided(dividend, divisor, fmt.scale)
    inner = coarser(fmt.model, QUOTIENT_BITS)
    return ring_ops.scale(divided(dividend, divisor, inner.scale), fmt.scale // inner.scale)
