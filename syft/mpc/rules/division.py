"""Division by private numbers, and exact division of whole numbers by public ones; x / 0 is 0, plain or shared."""

from __future__ import annotations

import torch

from syft.mpc.rules.gradients import coarser
from syft.mpc.rules.operands import FixedPointFormat
from syft.mpc.rules.types import Term, Value
from syft.mpc.values import ring_ops

# Quotients have no finer units: the protocol supports scales up to 2^40, with an odd part up to 2^24.
QUOTIENT_BITS = 34


def floor_divide_public(x: Value, divisor: int) -> Value:
    """Divide by a public whole number, rounding down, exactly.

    On shares `truncate` is off by up to two units; the remainder gives the correction.
    """
    if not ring_ops.is_shared(x):
        return torch.div(x, divisor, rounding_mode="floor")
    if divisor < 0:
        return floor_divide_public(ring_ops.neg(x), -divisor)
    if divisor == 1:
        return x
    near = ring_ops.truncate(x, divisor)
    rest = ring_ops.sub(x, ring_ops.scale(near, divisor))
    # rest lies in (-2d, 3d): add one for each of d, 2d that it reaches, subtract one for each of 0, -d above it.
    marks = torch.tensor([divisor, 2 * divisor, 0, -divisor]).view(-1, *[1] * len(ring_ops.shape_of(x)))
    reached = ring_ops.total(ring_ops.negative(ring_ops.sub(rest, marks), invert=True), [0])
    return ring_ops.add(near, ring_ops.sub(reached, 2))


def integer_quotient(x: Term, y: Term) -> Value:
    """Divide whole numbers by private ones, rounding down, exactly (see the protocol `floor_divide` for its domain)."""
    x, y = ring_ops.together([x, y])
    return ring_ops.run("floor_divide", x, y)


def divided(dividend: Term, divisor: Term, scale: int) -> Value:
    """Return dividend scale / divisor, and 0 where the divisor is zero."""
    if ring_ops.is_shared(dividend) or ring_ops.is_shared(divisor):
        x, y = ring_ops.together([dividend, divisor])
        return ring_ops.run("divide", x, y, scale=scale)
    dividend, divisor = ring_ops.as_tensor(dividend), ring_ops.as_tensor(divisor)
    safe = torch.where(divisor == 0, 1, divisor).double()
    return torch.where(divisor == 0, 0, (dividend.double() * scale / safe).round().long())


def quotient_in(fmt: FixedPointFormat, dividend: Term, divisor: Term) -> Value:
    """Return the quotient of integers with the same units, as integers of a format."""
    if fmt.scale <= 1 << QUOTIENT_BITS or fmt.model is None:
        return divided(dividend, divisor, fmt.scale)
    inner = coarser(fmt.model, QUOTIENT_BITS)
    return ring_ops.scale(divided(dividend, divisor, inner.scale), fmt.scale // inner.scale)
