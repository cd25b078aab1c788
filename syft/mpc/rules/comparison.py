"""Rules for comparisons and what rests on them: abs, sign, clamp, where, masks.

A comparison gives 1 or 0 in the form of its operands, still private. The bit as a whole number is kept with it, so
that a product with it is exact and needs no division.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from syft.core.autograd_state import is_followed
from syft.exceptions import UnsupportedOperation
from syft.mpc.ring import arithmetic
from syft.mpc.rules.arithmetic import sub
from syft.mpc.rules.cached_comparisons import BIT, compared, inverted, note, recall
from syft.mpc.rules.operands import (
    AnyTensor,
    FixedPointFormat,
    Link,
    Number,
    Operand,
    Value,
    aten,
    content,
    floored,
    form_of,
    is_link,
    rule,
    whole,
)
from syft.mpc.values import ring_ops
from syft.mpc.values.ring_ops import Term
from syft.tensors.precision import FixedPrecisionTensor


def bits(bit: Value, form: FixedPointFormat) -> Link:
    """Return a link of a form whose values are 0 or 1, from whole numbers."""
    link = form.link(ring_ops.scale(bit, form.scale))
    link.is_bit = True
    return link if form.scale == 1 else note(link, BIT, bit)


def truth(x: Operand) -> AnyTensor | int:
    """Return 1 where something is not zero, else 0: a comparison as it is, a public mask as numbers."""
    if not is_link(x):
        return (x != 0).long() if isinstance(x, torch.Tensor) else int(bool(x))
    return x if x.is_bit else ne(x, 0)


def _difference(x: Operand, y: Operand, form: FixedPointFormat) -> Value:
    return ring_ops.sub(whole(x, form), whole(y, form))


def _ordered(name: str, swapped: bool, invert: bool) -> Callable[[Operand, Operand], Link]:
    """Make the rule of an order: x < y is "x - y is negative", the others follow."""

    def compare(x: Operand, y: Operand) -> Link:
        form = form_of(x, y)
        bit = compared(x, y, name)
        if bit is None:
            difference = _difference(y, x, form) if swapped else _difference(x, y, form)
            bit = ring_ops.negative(difference, 1, invert)
        return bits(bit, form)

    return compare


lt, gt = _ordered("lt", False, False), _ordered("gt", True, False)
le, ge = _ordered("le", True, True), _ordered("ge", False, True)
rule(aten.lt.Tensor, aten.lt.Scalar)(lt)
rule(aten.gt.Tensor, aten.gt.Scalar)(gt)
rule(aten.le.Tensor, aten.le.Scalar)(le)
rule(aten.ge.Tensor, aten.ge.Scalar)(ge)


def _equal(name: str, invert: bool) -> Callable[[Operand, Operand], Link]:
    """Make the rule of x == y, or of x != y."""

    def compare(x: Operand, y: Operand) -> Link:
        form = form_of(x, y)
        bit = compared(x, y, name)
        return bits(ring_ops.zero(_difference(x, y, form), 1, invert) if bit is None else bit, form)

    return compare


eq, ne = _equal("eq", False), _equal("ne", True)
rule(aten.eq.Tensor, aten.eq.Scalar)(eq)
rule(aten.ne.Tensor, aten.ne.Scalar)(ne)


def bit_and_scale(condition: Operand) -> tuple[Term, int]:
    """Return a condition as integers, and the one that stands for true: 1, or a scale if only that is at hand."""
    condition = truth(condition)
    if not is_link(condition):
        return condition, 1
    bit: Value | None = recall(condition, BIT)
    return (content(condition), form_of(condition).scale) if bit is None else (bit, 1)


def masked(condition: Operand, x: Operand, form: FixedPointFormat) -> Value:
    """Return whole numbers of x where a condition holds, else 0."""
    bit, scale = bit_and_scale(condition)
    return ring_ops.mul(bit, whole(x, form), scale)


@rule(aten.where.self, in_place=False)
def where(condition: Operand, x: Operand, y: Operand) -> Link:
    """Return x where a condition holds, else y; a private condition comes from a comparison."""
    form, x, y = form_of(x, y), floored(x), floored(y)
    if form.model is None and not is_link(x) and not is_link(y):
        form = form_of(condition)
    difference = form.link(_difference(x, y, form)) if is_link(x) or is_link(y) else x - y
    return form.link(ring_ops.add(whole(y, form), masked(condition, difference, form)))


@rule(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(x: Operand, mask: AnyTensor, value: Operand) -> Link:
    """A number where a mask holds, else x."""
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
    """Run a function of bits on operands; those of which the bit is not at hand are divided by their scale, exactly."""
    found = []
    for bit, scale in map(bit_and_scale, operands):
        found.append(bit if scale == 1 else ring_ops.truncate(ring_ops.as_tensor(bit), scale))
    return bits(function(*found), form_of(*operands))


def _bitwise(logical: Callable[[Operand, Operand], Link], name: str) -> Callable[[Operand, Operand], Link]:
    """Make the rule of & | ^: that of truth values; other numbers have no bits here."""

    def run(x: Operand, y: Operand) -> Link:
        for operand in (x, y):
            whole_bits = operand.is_bit if is_link(operand) else getattr(operand, "dtype", torch.bool) is torch.bool
            if not whole_bits:
                raise UnsupportedOperation(name, "encrypted numbers", "It works on the results of comparisons.")
        return logical(x, y)

    return run


rule(aten.bitwise_and.Tensor)(_bitwise(logical_and, "x & y"))
rule(aten.bitwise_or.Tensor)(_bitwise(logical_or, "x | y"))
rule(aten.bitwise_xor.Tensor)(_bitwise(logical_xor, "x ^ y"))


@rule(aten.bitwise_not.default)
def bitwise_not(x: Link) -> Link:
    """Return 1 - x of a comparison; of whole numbers -x - 1, as torch does."""
    if not x.is_bit and form_of(x).model is not None:
        raise UnsupportedOperation("~x", type(x).__name__, "It works on the results of comparisons.")
    return logical_not(x) if x.is_bit else sub(-1, x)


# Torch itself refuses `~` on what it takes for floats, so the call is taken over before it does.
FixedPrecisionTensor.implements(torch.Tensor.__invert__, torch.Tensor.bitwise_not, torch.bitwise_not)(bitwise_not)


# --- what is made of comparisons ----------------------------------------------------------------------------


def relu_with_bits(value: Value, *names: str) -> tuple[Value, list[Value | None]]:
    """Return whole numbers where they are positive, else 0; if autograd follows, also bits: "ge", "gt" (else None)."""
    if not is_followed() or (ring_ops.is_shared(value) and value.protocol != "beaver"):
        return ring_ops.relu(value), [None] * len(names)
    positive, *found = ring_ops.relu_and_bits(value, *names)
    return positive, [*found]


def positive_parts(value: Value) -> tuple[Value, Value]:
    """Return whole numbers where they are positive, else 0; and 1 or 0 for where they are, whatever the protocol."""
    if ring_ops.is_shared(value) and value.protocol != "beaver":
        return ring_ops.relu(value), ring_ops.negative(ring_ops.neg(value))
    positive, above = ring_ops.relu_and_bits(value, "gt")
    return positive, above


def noted(link: Link, other: Operand = 0, **facts: Value | None) -> Link:
    """Note of a link what is known of its comparison with another one."""
    for name, fact in facts.items():
        if fact is not None:
            note(link, name, fact, other)
    return link


def twice(first: Term, second: Term) -> Value:
    """Return values as one, so that both are compared in the same rounds, with the shape they have together."""
    first, second = ring_ops.as_tensor(first), ring_ops.as_tensor(second)
    shape = arithmetic.broadcast(ring_ops.shape_of(first), ring_ops.shape_of(second))
    both = ring_ops.together([ring_ops.expand(first, shape), ring_ops.expand(second, shape)])
    return ring_ops.local(aten.stack.default, both)


@rule(aten.abs.default)
def absolute(x: Link) -> Link:
    """|x| = 2 relu(x) - x."""
    value = content(x)
    positive, (reached, above) = relu_with_bits(value, "ge", "gt")
    noted(x, ge=reached, gt=above)
    return form_of(x).link(ring_ops.sub(ring_ops.scale(positive, 2), value))


@rule(aten.sign.default, aten.sgn.default)
def sign(x: Link) -> Link:
    """1, 0 or -1."""
    form, value = form_of(x), content(x)
    reached, above = recall(x, "ge"), recall(x, "gt")
    if reached is None or above is None:
        below, over = ring_ops.unbind(ring_ops.negative(twice(value, ring_ops.neg(value))))
        found = ring_ops.sub(over, below)
    else:
        found = ring_ops.sub(ring_ops.add(reached, above), 1)
    made = form.link(ring_ops.scale(found, form.scale))
    return made if form.scale == 1 else note(made, BIT, found)


@rule(aten.maximum.default, aten.fmax.default, in_place=False)
def maximum(x: Operand, y: Operand) -> Link:
    """The larger of two: y + relu(x - y)."""
    form = form_of(x, y)
    positive, (reached, above) = relu_with_bits(_difference(x, y, form), "ge", "gt")
    if is_link(x):
        noted(x, y, ge=reached, gt=above)
    return form.link(ring_ops.add(whole(y, form), positive))


@rule(aten.minimum.default, aten.fmin.default, in_place=False)
def minimum(x: Operand, y: Operand) -> Link:
    """The smaller of two: x - relu(x - y)."""
    form = form_of(x, y)
    positive, (reached, above) = relu_with_bits(_difference(x, y, form), "ge", "gt")
    if is_link(x):
        noted(x, y, ge=reached, gt=above)
    return form.link(ring_ops.sub(whole(x, form), positive))


@rule(aten.clamp_min.default, aten.clamp_min.Tensor)
def clamp_min(x: Link, low: Operand) -> Link:
    """x, but not below a bound."""
    form = form_of(x, low)
    positive, (reached,) = relu_with_bits(_difference(x, low, form), "ge")
    noted(x, low, ge=reached)
    return form.link(ring_ops.add(whole(low, form), positive))


@rule(aten.clamp_max.default, aten.clamp_max.Tensor)
def clamp_max(x: Link, high: Operand) -> Link:
    """x, but not above a bound."""
    form = form_of(x, high)
    positive, (reached,) = relu_with_bits(_difference(high, x, form), "ge")
    noted(x, high, gt=None if reached is None else inverted(reached))
    return form.link(ring_ops.sub(whole(high, form), positive))


@rule(aten.clamp.default, aten.clamp.Tensor)
def clamp(
    x: Link,
    low: Operand | None = None,
    high: Operand | None = None,
    min: Operand | None = None,
    max: Operand | None = None,
) -> Link:
    """Return x within bounds, which may be private tensors."""
    low, high = (min if low is None else low), (max if high is None else high)
    if low is not None and high is not None and not is_link(low) and not is_link(high):
        return between(x, low, high, strict=False)
    made = x if low is None else clamp_min(x, low)
    return made if high is None else clamp_max(made, high)


def between(x: Link, low: torch.Tensor | Number, high: torch.Tensor | Number, strict: bool) -> Link:
    """Return x within public bounds: low + high - x + relu(x - low) - relu(high - x), both relus at once.

    Args:
        x: the link.
        low: the lower bound.
        high: the upper one; where it is below the other one, it alone counts, as in torch.
        strict: whether the gradient will ask where x lies between the bounds, or else also where it reaches one.
    """
    form = form_of(x)
    least = torch.minimum(torch.as_tensor(low), torch.as_tensor(high))
    bottom, top = whole(least, form), whole(high, form)
    value = content(x)
    both, (found,) = relu_with_bits(
        twice(ring_ops.sub(value, bottom), ring_ops.sub(top, value)), "gt" if strict else "ge"
    )
    below, above = ring_ops.unbind(both)
    if found is not None and bool((torch.as_tensor(low) <= torch.as_tensor(high)).all()):
        over, under = ring_ops.unbind(found)
        note(x, "gt" if strict else "ge", over, low)
        note(x, "ge" if strict else "gt", inverted(under), high)
    return form.link(ring_ops.add(ring_ops.sub(ring_ops.sub(below, above), value), ring_ops.add(bottom, top)))


@rule(aten.any.default, in_place=False)
def any_of(x: Link) -> Link:
    """Whether any element is not zero."""
    form = form_of(x)
    return form.link(ring_ops.zero(_count(x), form.scale, invert=True))


@rule(aten.all.default, in_place=False)
def all_of(x: Link) -> Link:
    """Whether no element is zero."""
    form = form_of(x)
    return form.link(ring_ops.zero(ring_ops.sub(_count(x), x.shape.numel()), form.scale))


def _count(x: Link) -> Value:
    """Count the elements that are not zero."""
    return ring_ops.total(ring_ops.zero(content(x), invert=True))


@rule(aten.isnan.default, aten.isinf.default, in_place=False)
def never(x: Link) -> torch.Tensor:
    """Nothing encoded is NaN or infinite: a public answer."""
    return torch.zeros(tuple(x.shape), dtype=torch.bool)


def refuse_equal(x: Operand, y: Operand, *args: object, **kwargs: object) -> Any:
    """Refuse: the answer would be a public bit about private values."""
    raise UnsupportedOperation(
        "torch.equal, torch.allclose", "encrypted tensors", "Compare with x == y, which stays private, or .get() first."
    )


rule(aten.equal.default, aten.allclose.default, in_place=False)(refuse_equal)
