"""Gradients of means: with more digits than what they are gradients of.

The gradient of a mean of 3,000 numbers is a 3,000th of each: that is nothing with three decimals, and 22 units, of
which one is rounding, with 16 bits. So what is divided by a public number on the way back gets the digits that this
takes away, up to ten bits of them. The finest form of operands wins, so gradients keep them all the way, and an
optimizer that adds a gradient to a parameter rounds once, at the end.
"""

from __future__ import annotations

import torch

from syft.mpc.rules.operands import FixedPointFormat
from syft.tensors.precision import FixedPrecisionTensor

# How many bits a gradient may have behind the point, and how many of them may be more than it began with.
MOST_BITS, MORE_BITS = 26, 10


def on_the_way_back() -> bool:
    """Say whether autograd is computing gradients in this thread."""
    return torch._C._current_graph_task_id() != -1


def finer(form: FixedPointFormat, divisor: float) -> FixedPointFormat:
    """Return a form that keeps the digits of numbers that are to be divided by a public number."""
    if form.model is None:
        return form
    digits, base = 0, form.base
    while (
        base**digits < abs(divisor)
        and base ** (digits + 1) <= 1 << MORE_BITS
        and form.scale * base ** (digits + 1) <= 1 << MOST_BITS
    ):
        digits += 1
    return with_digits(form.model, form.model.precision_fractional + digits) if digits else form


def with_digits(link: FixedPrecisionTensor, digits: int) -> FixedPointFormat:
    """Return the form of a link with another number of digits behind the point."""
    options = link.get_class_attributes() | {"precision_fractional": digits}
    return FixedPointFormat(link.base**digits, FixedPrecisionTensor(**options, owner=link._owner))


def coarser(link: FixedPrecisionTensor, bits: int) -> FixedPointFormat:
    """Return the finest form of the base of a link that has at most a number of bits."""
    digits = 0
    while link.base ** (digits + 1) <= 1 << bits:
        digits += 1
    return with_digits(link, digits)
