"""Division by private numbers, and exact division of whole numbers by public ones."""

from __future__ import annotations

import torch

from syft.mpc.rules.types import Term, Value
from syft.mpc.values import ring_ops


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


def quotient(x: Term, y: Term, scale: int) -> Value:
    """Divide by private numbers: x scale / y (see the protocol `divide` for its domain and error)."""
    x, y = ring_ops.together([x, y])
    return ring_ops.run("divide", x, y, scale=scale)
