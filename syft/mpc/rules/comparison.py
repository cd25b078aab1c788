"""Rules for comparisons and operations based on them: abs, sign, clamp, where, masks.

A comparison gives a private 1 or 0 in the format of its operands. The bit as an integer is cached with it, so that a
product with it is exact and needs no rescaling.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from syft.core.autograd_state import is_followed
from syft.exceptions import UnsupportedOperationError
from syft.mpc.ring import arithmetic
from syft.mpc.rules.arithmetic import sub
from syft.mpc.rules.cached_comparisons import BIT, compared, inverted, note, recall
from syft.mpc.rules.operands import (
    FixedPointFormat,
    aten,
    content,
    format_of,
    is_link,
    rule,
    to_integers,
    with_finite_mask,
)
from syft.mpc.rules.types import AnyTensor, Link, Number, Operand, Term, Value
from syft.mpc.values import ring_ops
from syft.tensors.precision import FixedPrecisionTensor


def bits(bit: Value, fmt: FixedPointFormat) -> Link:
    """Return a link with values 0 or 1 from bits as integers."""
    link = fmt.link(ring_ops.scale(bit, fmt.scale))
    link.is_bit = True
    return link if fmt.scale == 1 else note(link, BIT, bit)


def truth(x: Operand) -> AnyTensor | int:
    """Return 1 where an operand is not zero, else 0: a comparison unchanged, a public mask as integers."""
    if not is_link(x):
        return (x != 0).long() if isinstance(x, torch.Tensor) else int(bool(x))
    return x if x.is_bit else ne(x, 0)


def _difference(x: Operand, y: Operand, fmt: FixedPointFormat) -> Value:
    return ring_ops.sub(to_integers(x, fmt), to_integers(y, fmt))


def _ordered(name: str, swapped: bool, invert: bool, x: Operand, y: Operand) -> Link:
    """Compare by the sign of a difference."""
    fmt = format_of(x, y)
    bit = compared(x, y, name)
    if bit is None:
        difference = _difference(y, x, fmt) if swapped else _difference(x, y, fmt)
        bit = ring_ops.negative(difference, 1, invert)
    return bits(bit, fmt)


def _equal(name: str, invert: bool, x: Operand, y: Operand) -> Link:
    """Return x == y, or x != y."""
    fmt = format_of(x, y)
    bit = compared(x, y, name)
    return bits(ring_ops.zero(_difference(x, y, fmt), 1, invert) if bit is None else bit, fmt)


lt = rule(aten.lt.Tensor, aten.lt.Scalar)(functools.partial(_ordered, "lt", False, False))
gt = rule(aten.gt.Tensor, aten.gt.Scalar)(functools.partial(_ordered, "gt", True, False))
le = rule(aten.le.Tensor, aten.le.Scalar)(functools.partial(_ordered, "le", True, True))
ge = rule(aten.ge.Tensor, aten.ge.Scalar)(functools.partial(_ordered, "ge", False, True))
eq = rule(aten.eq.Tensor, aten.eq.Scalar)(functools.partial(_equal, "eq", False))
ne = rule(aten.ne.Tensor, aten.ne.Scalar)(functools.partial(_equal, "ne", True))


def bit_and_scale(condition: Operand) -> tuple[Term, int]:
    """Return a condition as integers, and the integer that means true: 1, or a scale if no bit is cached."""
    condition = truth(condition)
    if not is_link(condition):
        return condition, 1
    bit: Value | None = recall(condition, BIT)
    return (content(condition), format_of(condition).scale) if bit is None else (bit, 1)


def masked(condition: Operand, x: Operand, fmt: FixedPointFormat) -> Value:
    """Return x as integers where a condition is true, else 0."""
    bit, scale = bit_and_scale(condition)
    return ring_ops.mul(bit, to_integers(x, fmt), scale)


@rule(aten.where.self, in_place=False)
def where(condition: Operand, x: Operand, y: Operand) -> Link:
    """Return x where a condition is true, else y; a private condition is the result of a comparison."""
    fmt, x, y = format_of(x, y), with_finite_mask(x), with_finite_mask(y)
    if fmt.model is None and not is_link(x) and not is_link(y):
        fmt = format_of(condition)
    difference = fmt.link(_difference(x, y, fmt)) if is_link(x) or is_link(y) else x - y
    return fmt.link(ring_ops.add(to_integers(y, fmt), masked(condition, difference, fmt)))


@rule(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(x: Operand, mask: AnyTensor, value: Operand) -> Link:
    """A number where a mask is true, else x."""
    return where(mask, torch.tensor(value) if not isinstance(value, torch.Tensor) and not is_link(value) else value, x)


@rule(aten.logical_not.default)
def logical_not(x: Link) -> Link:
    """Return 1 where x is zero, else 0."""
    return _of_bits(lambda bit: inverted(bit), x) if x.is_bit else eq(x, 0)


@rule(aten.logical_and.default)
def logical_and(x: Operand, y: Operand) -> Link:
    """Return 1 where neither of two is zero, else 0."""
    return _of_bits(ring_ops.mul, x, y)


@rule(aten.logical_or.default)
def logical_or(x: Operand, y: Operand) -> Link:
    """Return 1 where one of two is not zero, else 0."""
    return _of_bits(lambda a, b: ring_ops.sub(ring_ops.add(a, b), ring_ops.mul(a, b)), x, y)


@rule(aten.logical_xor.default)
def logical_xor(x: Operand, y: Operand) -> Link:
    """Return 1 where one of two is zero and the other is not."""
    return _of_bits(lambda a, b: ring_ops.sub(ring_ops.add(a, b), ring_ops.scale(ring_ops.mul(a, b), 2)), x, y)


def _of_bits(function: Callable[..., Value], *operands: Operand) -> Link:
    """Run a function of bits on operands; values without a cached bit are divided by their scale, which is exact."""
    found = []
    for bit, scale in map(bit_and_scale, operands):
        found.append(bit if scale == 1 else ring_ops.truncate(ring_ops.as_tensor(bit), scale))
    return bits(function(*found), format_of(*operands))


def _bitwise(logical: Callable[[Operand, Operand], Link], name: str, x: Operand, y: Operand) -> Link:
    """Return x & y, x | y or x ^ y, which are supported on the results of comparisons."""
    for operand in (x, y):
        is_bits = operand.is_bit if is_link(operand) else getattr(operand, "dtype", torch.bool) is torch.bool
        if not is_bits:
            raise UnsupportedOperationError(name, "encrypted numbers", "It works on the results of comparisons.")
    return logical(x, y)


rule(aten.bitwise_and.Tensor)(functools.partial(_bitwise, logical_and, "x & y"))
rule(aten.bitwise_or.Tensor)(functools.partial(_bitwise, logical_or, "x | y"))
rule(aten.bitwise_xor.Tensor)(functools.partial(_bitwise, logical_xor, "x ^ y"))


@rule(aten.bitwise_not.default)
def bitwise_not(x: Link) -> Link:
    """Return 1 - x of a comparison; of whole numbers -x - 1, as torch does."""
    if not x.is_bit and format_of(x).model is not None:
        raise UnsupportedOperationError("~x", type(x).__name__, "It works on the results of comparisons.")
    return logical_not(x) if x.is_bit else sub(-1, x)


# torch refuses `~` on float dtypes, so the call is handled before torch checks.
FixedPrecisionTensor.implements(torch.Tensor.__invert__, torch.Tensor.bitwise_not, torch.bitwise_not)(bitwise_not)


# --- operations based on comparisons ----------------------------------------------------------------------------


def relu_with_bits(value: Value, *names: str) -> tuple[Value, list[Value | None]]:
    """Return relu of integers, and the bits "ge" and "gt" if autograd records (else None)."""
    is_other = ring_ops.is_shared(value) and value.protocol != "beaver"
    if not is_followed() or (is_other and len(names) > 1):
        return ring_ops.relu(value), [None] * len(names)
    if is_other:  # as its relu, in two steps
        bit = ring_ops.negative(value, invert=True) if names == ("ge",) else ring_ops.negative(ring_ops.neg(value))
        return ring_ops.mul(value, bit), [bit]
    positive, *found = ring_ops.relu_and_bits(value, *names)
    return positive, [*found]


def positive_parts(value: Value) -> tuple[Value, Value]:
    """Return relu of integers, and 1 where they are positive, else 0, with any protocol."""
    if ring_ops.is_shared(value) and value.protocol != "beaver":
        return ring_ops.relu(value), ring_ops.negative(ring_ops.neg(value))
    positive, above = ring_ops.relu_and_bits(value, "gt")
    return positive, above


def cache_bits(link: Link, other: Operand = 0, **facts: Value | None) -> Link:
    """Cache the bits of comparisons of a link with another operand; None is skipped."""
    for name, fact in facts.items():
        if fact is not None:
            note(link, name, fact, other)
    return link


def stack_pair(first: Term, second: Term) -> Value:
    """Stack two values, broadcast to one shape, so that both are compared in the same rounds."""
    first, second = ring_ops.as_tensor(first), ring_ops.as_tensor(second)
    shape = arithmetic.broadcast(ring_ops.shape_of(first), ring_ops.shape_of(second))
    both = ring_ops.together([ring_ops.expand(first, shape), ring_ops.expand(second, shape)])
    return ring_ops.local(aten.stack.default, both)


@rule(aten.abs.default)
def absolute(x: Link) -> Link:
    """|x| = 2 relu(x) - x."""
    value = content(x)
    positive, (reached, above) = relu_with_bits(value, "ge", "gt")
    cache_bits(x, ge=reached, gt=above)
    return format_of(x).link(ring_ops.sub(ring_ops.scale(positive, 2), value))


@rule(aten.sign.default, aten.sgn.default)
def sign(x: Link) -> Link:
    """1, 0 or -1."""
    fmt, value = format_of(x), content(x)
    reached, above = recall(x, "ge"), recall(x, "gt")
    if reached is None or above is None:
        below, over = ring_ops.unbind(ring_ops.negative(stack_pair(value, ring_ops.neg(value))))
        found = ring_ops.sub(over, below)
    else:
        found = ring_ops.sub(ring_ops.add(reached, above), 1)
    made = fmt.link(ring_ops.scale(found, fmt.scale))
    return made if fmt.scale == 1 else note(made, BIT, found)


def _excess(x: Operand, y: Operand, fmt: FixedPointFormat) -> Value:
    """Return relu(x - y); the comparison is cached with a link."""
    positive, (reached, above) = relu_with_bits(_difference(x, y, fmt), "ge", "gt")
    if is_link(x):
        cache_bits(x, y, ge=reached, gt=above)
    return positive


@rule(aten.maximum.default, aten.fmax.default, in_place=False)
def maximum(x: Operand, y: Operand) -> Link:
    """The larger of two: y + relu(x - y)."""
    fmt = format_of(x, y)
    return fmt.link(ring_ops.add(to_integers(y, fmt), _excess(x, y, fmt)))


@rule(aten.minimum.default, aten.fmin.default, in_place=False)
def minimum(x: Operand, y: Operand) -> Link:
    """The smaller of two: x - relu(x - y)."""
    fmt = format_of(x, y)
    return fmt.link(ring_ops.sub(to_integers(x, fmt), _excess(x, y, fmt)))


@rule(aten.clamp_min.default, aten.clamp_min.Tensor)
def clamp_min(x: Link, low: Operand) -> Link:
    """max(x, bound)."""
    fmt = format_of(x, low)
    positive, (reached,) = relu_with_bits(_difference(x, low, fmt), "ge")
    cache_bits(x, low, ge=reached)
    return fmt.link(ring_ops.add(to_integers(low, fmt), positive))


@rule(aten.clamp_max.default, aten.clamp_max.Tensor)
def clamp_max(x: Link, high: Operand) -> Link:
    """min(x, bound)."""
    fmt = format_of(x, high)
    positive, (reached,) = relu_with_bits(_difference(high, x, fmt), "ge")
    cache_bits(x, high, gt=None if reached is None else inverted(reached))
    return fmt.link(ring_ops.sub(to_integers(high, fmt), positive))


@rule(aten.clamp.default, aten.clamp.Tensor)
def clamp(
    x: Link, low: Operand | None = None, high: Operand | None = None, min: Operand | None = None,
    max: Operand | None = None,
) -> Link:  # fmt: skip
    """Return x clamped to bounds, which may be private tensors."""
    low, high = (min if low is None else low), (max if high is None else high)
    if low is not None and high is not None and not is_link(low) and not is_link(high):
        return between(x, low, high, strict=False)
    made = x if low is None else clamp_min(x, low)
    return made if high is None else clamp_max(made, high)


def between(x: Link, low: torch.Tensor | Number, high: torch.Tensor | Number, strict: bool) -> Link:
    """Return x clamped to public bounds: low + high - x + relu(x - low) - relu(high - x), both in the same rounds.

    Where the upper bound is below the lower one, it wins, as in torch. If strict, the gradient excludes the bounds.
    """
    fmt = format_of(x)
    minimum_bound = torch.minimum(torch.as_tensor(low), torch.as_tensor(high))
    bottom, top = to_integers(minimum_bound, fmt), to_integers(high, fmt)
    value = content(x)
    both, (found,) = relu_with_bits(
        stack_pair(ring_ops.sub(value, bottom), ring_ops.sub(top, value)), "gt" if strict else "ge"
    )
    below, above = ring_ops.unbind(both)
    if found is not None and bool((torch.as_tensor(low) <= torch.as_tensor(high)).all()):
        over, under = ring_ops.unbind(found)
        note(x, "gt" if strict else "ge", over, low)
        note(x, "ge" if strict else "gt", inverted(under), high)
    return fmt.link(ring_ops.add(ring_ops.sub(ring_ops.sub(below, above), value), ring_ops.add(bottom, top)))


@rule(aten.any.default, in_place=False)
def any_of(x: Link) -> Link:
    """Whether any element is not zero."""
    fmt = format_of(x)
    return fmt.link(ring_ops.zero(_count(x), fmt.scale, invert=True))


@rule(aten.all.default, in_place=False)
def all_of(x: Link) -> Link:
    """Whether no element is zero."""
    fmt = format_of(x)
    return fmt.link(ring_ops.zero(ring_ops.sub(_count(x), x.shape.numel()), fmt.scale))


def _count(x: Link) -> Value:
    """Count the elements that are not zero."""
    return ring_ops.total(ring_ops.zero(content(x), invert=True))


# Encoded numbers are never NaN or infinite.
rule(aten.isnan.default, aten.isinf.default, in_place=False)(lambda x: torch.zeros(tuple(x.shape), dtype=torch.bool))


@rule(aten.equal.default, aten.allclose.default, in_place=False)
def refuse_equal(x: Operand, y: Operand, *args: object, **kwargs: object) -> Any:
    """Refuse: the result would be a public bit about private values."""
    raise UnsupportedOperationError(
        "torch.equal, torch.allclose", "encrypted tensors", "Compare with x == y, which stays private, or .get() first."
    )
