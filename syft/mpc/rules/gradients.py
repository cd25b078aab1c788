"""Formats of gradients: with more digits than the values they belong to.

The gradient of a mean of 3,000 numbers is 1/3,000 of each: zero with three decimals, and 22 units with 16 bits. So a
division by a public number in a backward pass adds the digits that it costs, up to ten bits. Operations keep the finest
format of their operands, so gradients keep these digits, and an optimizer that adds a gradient to a parameter rounds
once.
"""

from __future__ import annotations

import torch

from syft.mpc.rules.operands import FixedPointFormat
from syft.tensors.precision import FixedPrecisionTensor

# The maximum of bits behind the point of a gradient, and of bits added to it.
MAX_BITS, MAX_EXTRA_BITS = 26, 10


def in_backward() -> bool:
    """Return whether autograd is computing gradients in this thread."""
    return torch._C._current_graph_task_id() != -1


def finer(fmt: FixedPointFormat, divisor: float) -> FixedPointFormat:
    """Return a format that keeps the digits of numbers after division by a public number."""
    if fmt.model is None:
        return fmt
    digits, base = 0, fmt.base
    while (
        base**digits < abs(divisor)
        and base ** (digits + 1) <= 1 << MAX_EXTRA_BITS
        and fmt.scale * base ** (digits + 1) <= 1 << MAX_BITS
    ):
        digits += 1
    return with_digits(fmt.model, fmt.model.precision_fractional + digits) if digits else fmt


def with_digits(link: FixedPrecisionTensor, digits: int) -> FixedPointFormat:
    """Return the format of a link with another number of digits behind the point."""
    options = link.get_class_attributes() | {"precision_fractional": digits}
    return FixedPointFormat(link.base**digits, FixedPrecisionTensor(**options, owner=link._owner))


def coarser(link: FixedPrecisionTensor, bits: int) -> FixedPointFormat:
    """Return the finest format, in the base of a link, with at most a number of bits."""
    digits = 0
    while link.base ** (digits + 1) <= 1 << bits:
        digits += 1
    return with_digits(link, digits)
