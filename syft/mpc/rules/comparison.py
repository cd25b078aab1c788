"""Rules for comparisons and what rests on them: relu, abs, sign, clamp, where, masks.

A comparison gives 1 or 0 in the form of its operands, still private.
"""

from __future__ import annotations

from typing import Any

import torch

from syft.exceptions import UnsupportedOperation
from syft.mpc import values
from syft.mpc.rules.arithmetic import add, mul, sub
from syft.mpc.rules.factors import times
from syft.mpc.rules.operands import Form, Value, aten, content, form_of, is_link, rule, whole
from syft.tensors.precision import FixedPrecisionTensor


def _bits(link: Any) -> Any:
    """Note of a link that its values are 0 or 1."""
    link.is_bit = True
    return link


def truth(x: Any) -> Any:
    """Return 1 where something is not zero, else 0: a comparison as it is, a public mask as numbers."""
    if not is_link(x):
        return (x != 0).long() if isinstance(x, torch.Tensor) else int(bool(x))
    return x if x.is_bit else ne(x, 0)


def _difference(x: Any, y: Any, form: Form) -> Value:
    return values.sub(whole(x, form), whole(y, form))


def _ordered(swapped: bool, invert: bool) -> Any:
    """Make the rule of an order: x < y is "x - y is negative", the others follow."""

    def compare(x: Any, y: Any) -> Any:
        form = form_of(x, y)
        difference = _difference(y, x, form) if swapped else _difference(x, y, form)
        return _bits(form.link(values.negative(difference, form.scale, invert)))

    return compare


lt, gt, le, ge = _ordered(False, False), _ordered(True, False), _ordered(True, True), _ordered(False, True)
rule(aten.lt.Tensor, aten.lt.Scalar)(lt)
rule(aten.gt.Tensor, aten.gt.Scalar)(gt)
rule(aten.le.Tensor, aten.le.Scalar)(le)
rule(aten.ge.Tensor, aten.ge.Scalar)(ge)


@rule(aten.eq.Tensor, aten.eq.Scalar)
def eq(x: Any, y: Any) -> Any:
    """Return x == y."""
    form = form_of(x, y)
    return _bits(form.link(values.zero(_difference(x, y, form), form.scale)))


@rule(aten.ne.Tensor, aten.ne.Scalar)
def ne(x: Any, y: Any) -> Any:
    """Return x != y."""
    form = form_of(x, y)
    return _bits(form.link(values.zero(_difference(x, y, form), form.scale, invert=True)))


def masked(condition: Any, x: Any, form: Form) -> Value:
    """Return whole numbers of x where a condition holds, else 0."""
    condition = truth(condition)
    if is_link(condition):
        return values.mul(content(condition), whole(x, form), form_of(condition).scale)
    return values.mul(condition, whole(x, form))


@rule(aten.where.self, in_place=False)
def where(condition: Any, x: Any, y: Any) -> Any:
    """Return x where a condition holds, else y; a private condition comes from a comparison."""
    form = form_of(x, y)
    if form.model is None and not is_link(x) and not is_link(y):
        form = form_of(condition)
    difference = form.link(_difference(x, y, form)) if is_link(x) or is_link(y) else x - y
    return form.link(values.add(whole(y, form), masked(condition, difference, form)))


@rule(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """A number where a mask holds, else x."""
    return where(mask, torch.tensor(value) if not isinstance(value, torch.Tensor) and not is_link(value) else value, x)


@rule(aten.logical_not.default)
def logical_not(x: Any) -> Any:
    """Return 1 where x is zero, else 0."""
    return _bits(sub(1, x)) if x.is_bit else eq(x, 0)


@rule(aten.logical_and.default)
def logical_and(x: Any, y: Any) -> Any:
    """Return 1 where neither of two is zero, else 0."""
    return _bits(mul(truth(x), truth(y)))


@rule(aten.logical_or.default)
def logical_or(x: Any, y: Any) -> Any:
    """Return 1 where one of two is not zero, else 0."""
    x, y = truth(x), truth(y)
    return _bits(sub(add(x, y), mul(x, y)))


@rule(aten.logical_xor.default)
def logical_xor(x: Any, y: Any) -> Any:
    """Return 1 where exactly one of two is not zero, else 0."""
    x, y = truth(x), truth(y)
    return _bits(sub(add(x, y), mul(mul(x, y), 2)))


def _bitwise(logical: Any, name: str) -> Any:
    """Make the rule of & | ^: that of truth values; other numbers have no bits here."""

    def run(x: Any, y: Any) -> Any:
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
def bitwise_not(x: Any) -> Any:
    """Return 1 - x of a comparison; of whole numbers -x - 1, as torch does."""
    if not x.is_bit and form_of(x).model is not None:
        raise UnsupportedOperation("~x", type(x).__name__, "It works on the results of comparisons.")
    return logical_not(x) if x.is_bit else sub(-1, x)


# Torch itself refuses `~` on what it takes for floats, so the call is taken over before it does.
FixedPrecisionTensor.implements(torch.Tensor.__invert__, torch.Tensor.bitwise_not, torch.bitwise_not)(bitwise_not)


# --- what is made of comparisons ----------------------------------------------------------------------------


@rule(aten.relu.default)
def relu(x: Any) -> Any:
    """Return x where it is positive, else 0."""
    return form_of(x).link(values.relu(content(x)))


@rule(aten.threshold_backward.default, in_place=False)
def threshold_backward(grad: Any, x: Any, threshold: Any) -> Any:
    """Gradient of relu: kept where its input (or result) is above the threshold."""
    form = form_of(grad, x)
    return form.link(masked(gt(x, threshold), grad, form) if is_link(x) else masked(x > threshold, grad, form))


@rule(aten.abs.default)
def absolute(x: Any) -> Any:
    """|x| = 2 relu(x) - x."""
    value = content(x)
    return form_of(x).link(values.sub(values.scale(values.relu(value), 2), value))


@rule(aten.sign.default, aten.sgn.default)
def sign(x: Any) -> Any:
    """1, 0 or -1."""
    form, value = form_of(x), content(x)
    both = values.local(aten.stack.default, [value, values.neg(value)])
    below = values.negative(both, form.scale)
    first, second = values.local(aten.unbind.int, below)
    return form.link(values.sub(second, first))


@rule(aten.maximum.default, aten.fmax.default, in_place=False)
def maximum(x: Any, y: Any) -> Any:
    """The larger of two: y + relu(x - y)."""
    form = form_of(x, y)
    return form.link(values.add(whole(y, form), values.relu(_difference(x, y, form))))


@rule(aten.minimum.default, aten.fmin.default, in_place=False)
def minimum(x: Any, y: Any) -> Any:
    """The smaller of two: y - relu(y - x)."""
    form = form_of(x, y)
    return form.link(values.sub(whole(y, form), values.relu(_difference(y, x, form))))


@rule(aten.clamp.default, aten.clamp.Tensor)
def clamp(x: Any, low: Any = None, high: Any = None, min: Any = None, max: Any = None) -> Any:
    """Return x within bounds, which may be private tensors."""
    low, high = (min if low is None else low), (max if high is None else high)
    made = x if low is None else maximum(x, low)
    return made if high is None else minimum(made, high)


@rule(aten.hardtanh.default)
def hardtanh(x: Any, min_val: Any = -1, max_val: Any = 1) -> Any:
    """Return x within bounds; torch leaves out bounds that are the usual ones."""
    return clamp(x, min_val, max_val)


@rule(aten.clamp_min.default, aten.clamp_min.Tensor)
def clamp_min(x: Any, low: Any) -> Any:
    """x, but not below a bound."""
    return maximum(x, low)


@rule(aten.clamp_max.default, aten.clamp_max.Tensor)
def clamp_max(x: Any, high: Any) -> Any:
    """x, but not above a bound."""
    return minimum(x, high)


@rule(aten.hardtanh_backward.default, in_place=False)
def hardtanh_backward(grad: Any, x: Any, low: Any, high: Any) -> Any:
    """Gradient of a clamp: kept strictly between the bounds."""
    return mul(grad, logical_and(gt(x, low), lt(x, high)))


@rule(aten.leaky_relu.default)
def leaky_relu(x: Any, slope: Any = 0.01) -> Any:
    """Return x where it is positive, else slope x."""
    form, value = form_of(x), content(x)
    return form.link(values.add(values.relu(value), times(values.neg(values.relu(values.neg(value))), slope, form)))


@rule(aten.threshold.default)
def threshold(x: Any, bound: Any, value: Any) -> Any:
    """Return x where it is above a bound, else a number."""
    return where(gt(x, bound), x, torch.tensor(value))


@rule(aten.any.default, in_place=False)
def any_of(x: Any) -> Any:
    """Whether any element is not zero."""
    form = form_of(x)
    return form.link(values.zero(_count(x), form.scale, invert=True))


@rule(aten.all.default, in_place=False)
def all_of(x: Any) -> Any:
    """Whether no element is zero."""
    form = form_of(x)
    return form.link(values.zero(values.sub(_count(x), x.shape.numel()), form.scale))


def _count(x: Any) -> Value:
    """Count the elements that are not zero."""
    return values.total(values.zero(content(x), invert=True))


@rule(aten.isnan.default, aten.isinf.default, in_place=False)
def never(x: Any) -> Any:
    """Nothing encoded is NaN or infinite: a public answer."""
    return torch.zeros(tuple(x.shape), dtype=torch.bool)


def refuse_equal(x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
    """Refuse: the answer would be a public bit about private values."""
    raise UnsupportedOperation(
        "torch.equal, torch.allclose", "encrypted tensors", "Compare with x == y, which stays private, or .get() first."
    )


rule(aten.equal.default, aten.allclose.default, in_place=False)(refuse_equal)
