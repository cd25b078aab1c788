"""Quotients of links, in forms that division has room for; x / 0 is 0, here as on shares."""

from __future__ import annotations

import torch

from syft.mpc.rules.division import quotient
from syft.mpc.rules.gradients import coarser
from syft.mpc.rules.operands import FixedPointFormat
from syft.mpc.values import ring_ops
from syft.mpc.values.ring_ops import Term, Value

# Quotients are worked out in no finer units: the protocol takes scales up to 2^40, their odd part up to 2^24.
QUOTIENT_BITS = 34


def divided(dividend: Term, divisor: Term, scale: int) -> Value:
    """Return dividend scale / divisor, and 0 where the divisor is zero, here or on shares."""
    if ring_ops.is_shared(dividend) or ring_ops.is_shared(divisor):
        return quotient(dividend, divisor, scale)
    dividend, divisor = ring_ops.as_tensor(dividend), ring_ops.as_tensor(divisor)
    safe = torch.where(divisor == 0, 1, divisor).double()
    return torch.where(divisor == 0, 0, (dividend.double() * scale / safe).round().long())


def quotient_in(form: FixedPointFormat, dividend: Term, divisor: Term) -> Value:
    """Return the quotient of whole numbers that have the same units, as whole numbers of a form."""
    if form.scale <= 1 << QUOTIENT_BITS or form.model is None:
        return divided(dividend, divisor, form.scale)
    inner = coarser(form.model, QUOTIENT_BITS)
    return ring_ops.scale(divided(dividend, divisor, inner.scale), form.scale // inner.scale)
