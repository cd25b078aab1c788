"""Rules for activations that are computed from comparisons, and their gradients.

Each compares once. If autograd records, the bits are cached (see `cached_comparisons`), and the gradient is a product
with them.
"""

from __future__ import annotations

from typing import Any

from syft.core.autograd_state import is_followed
from syft.mpc.rules.approximations import exp_of_negative, sigmoid
from syft.mpc.rules.arithmetic import mul, sub
from syft.mpc.rules.cached_comparisons import inverted, note, recall
from syft.mpc.rules.comparison import (
    between,
    bits,
    cache_bits,
    ge,
    gt,
    logical_and,
    logical_or,
    lt,
    masked,
    positive_parts,
    relu_with_bits,
    stack_pair,
)
from syft.mpc.rules.operands import FixedPointFormat, aten, content, format_of, is_link, rule, to_integers
from syft.mpc.rules.public_scaling import product, times
from syft.mpc.rules.types import AnyTensor, Link, Number, Value
from syft.mpc.values import ring_ops


def _above(x: AnyTensor, bound: float) -> AnyTensor:
    """Return where x, private or public, is above a number."""
    return gt(x, bound) if is_link(x) else x > bound


@rule(aten.relu.default)
def relu(x: Link) -> Link:
    """Return x where it is positive, else 0."""
    positive, (above,) = relu_with_bits(content(x), "gt")
    return cache_bits(format_of(x).link(positive), gt=above)


@rule(aten.threshold.default)
def threshold(x: Link, bound: float, value: Number) -> Link:
    """Return x where it is above a bound, else a number: relu(x - bound) + (bound - number) bit + number."""
    fmt = format_of(x)
    positive, above = positive_parts(ring_ops.sub(content(x), to_integers(bound, fmt)))
    step = ring_ops.scale(above, to_integers(bound, fmt) - to_integers(value, fmt))
    cache_bits(x, bound, gt=above if is_followed() else None)
    return fmt.link(ring_ops.add(ring_ops.add(positive, step), to_integers(value, fmt)))


def _kept(grad: AnyTensor, x: AnyTensor, condition: AnyTensor) -> Link:
    """Return a gradient where a condition on x is true, else 0."""
    fmt = format_of(grad, x)
    return fmt.link(masked(condition, grad, fmt))


@rule(aten.threshold_backward.default, in_place=False)
def threshold_backward(grad: AnyTensor, x: AnyTensor, bound: float) -> Link:
    """Gradient of relu: kept where its input (or result) is above the threshold."""
    return _kept(grad, x, _above(x, bound))


# --- between two bounds ---------------------------------------------------------------------------------------


@rule(aten.hardtanh.default)
def hardtanh(x: Link, min_val: float = -1, max_val: float = 1) -> Link:
    """Return x clamped to bounds; torch leaves default bounds out."""
    made = between(x, min_val, max_val, strict=True)
    # In place, the gradient is computed from the result.
    return cache_bits(cache_bits(made, min_val, gt=recall(x, "gt", min_val)), max_val, ge=recall(x, "ge", max_val))


@rule(aten.hardtanh_backward.default, in_place=False)
def hardtanh_backward(grad: AnyTensor, x: AnyTensor, low: float, high: float) -> Link:
    """Gradient of a clamp: kept strictly between the bounds."""
    return _kept(grad, x, _inside(x, low, high))


def _inside(x: AnyTensor, low: float, high: float) -> AnyTensor:
    """Return where x lies strictly between two numbers."""
    if not is_link(x):
        return (x > low) & (x < high)
    over, reached = recall(x, "gt", low), recall(x, "ge", high)
    if over is None or reached is None:
        return logical_and(gt(x, low), lt(x, high))
    return bits(ring_ops.sub(over, reached), format_of(x))


@rule(aten.hardsigmoid.default)
def hardsigmoid(x: Link) -> Link:
    """Return a line from 0 at -3 to 1 at 3: (clamp(x) + 3) / 6."""
    fmt = format_of(x)
    return fmt.link(ring_ops.truncate(_from_zero(x, fmt), 6))


def _from_zero(x: Link, fmt: FixedPointFormat) -> Value:
    return ring_ops.add(content(between(x, -3, 3, strict=True)), 3 * fmt.scale)


@rule(aten.hardsigmoid_backward.default, in_place=False)
def hardsigmoid_backward(grad: AnyTensor, x: AnyTensor) -> Link:
    """Gradient of hardsigmoid: a sixth, between the bounds."""
    fmt = format_of(grad, x)
    return fmt.link(ring_ops.truncate(masked(_inside(x, -3, 3), grad, fmt), 6))


@rule(aten.hardswish.default)
def hardswish(x: Link) -> Link:
    """Return x hardsigmoid(x)."""
    fmt = format_of(x)
    return fmt.link(ring_ops.mul(content(x), _from_zero(x, fmt), 6 * fmt.scale))


@rule(aten.hardswish_backward.default, in_place=False)
def hardswish_backward(grad: AnyTensor, x: AnyTensor) -> Link:
    """Gradient of hardswish: (2x + 3) / 6 between the bounds, and 1 above them."""
    fmt = format_of(grad, x)
    slope = ring_ops.add(ring_ops.scale(to_integers(x, fmt), 2), 3 * fmt.scale)
    rising = ring_ops.mul(masked(_inside(x, -3, 3), grad, fmt), slope, 6 * fmt.scale)
    return fmt.link(ring_ops.add(rising, masked(ge(x, 3) if is_link(x) else x >= 3, grad, fmt)))


# --- outside two bounds ------------------------------------------------------------------------------------


def _outside(x: Link, bound: float, fmt: FixedPointFormat) -> tuple[Value, Value, Value]:
    """Return relu(x - bound), relu(-x - bound), and their signs, from one comparison."""
    value, distance = content(x), to_integers(bound, fmt)
    both, found = positive_parts(stack_pair(ring_ops.sub(value, distance), ring_ops.sub(ring_ops.neg(value), distance)))
    (over, under), (above, below) = ring_ops.unbind(both), ring_ops.unbind(found)
    if is_followed():
        cache_bits(cache_bits(x, bound, gt=above), -bound, ge=inverted(below))
    return over, under, ring_ops.sub(above, below)


@rule(aten.softshrink.default, in_place=False)
def softshrink(x: Link, bound: float = 0.5) -> Link:
    """Return x moved towards 0 by a bound, and 0 within the bound."""
    fmt = format_of(x)
    over, under, _ = _outside(x, bound, fmt)
    return fmt.link(ring_ops.sub(over, under))


@rule(aten.hardshrink.default, in_place=False)
def hardshrink(x: Link, bound: float = 0.5) -> Link:
    """Return x where it is beyond a bound on either side, else 0."""
    fmt = format_of(x)
    over, under, side = _outside(x, bound, fmt)
    return fmt.link(ring_ops.add(ring_ops.sub(over, under), ring_ops.scale(side, to_integers(bound, fmt))))


@rule(aten.softshrink_backward.default, aten.hardshrink_backward.default, in_place=False)
def shrink_backward(grad: AnyTensor, x: AnyTensor, bound: float) -> Link:
    """Gradient of both: kept beyond the bound."""
    above, reached = recall(x, "gt", bound), recall(x, "ge", -bound)
    if above is not None and reached is not None:
        return _kept(grad, x, bits(ring_ops.add(above, inverted(reached)), format_of(x)))
    return _kept(grad, x, logical_or(gt(x, bound), lt(x, -bound)) if is_link(x) else x.abs() > bound)


# --- with a slope below zero ----------------------------------------------------------------------------------


def _split(x: AnyTensor, fmt: FixedPointFormat) -> tuple[Value, Value]:
    """Return the positive part of x and the rest; the comparison is cached with a link."""
    value = to_integers(x, fmt)
    positive, (above,) = relu_with_bits(value, "gt")
    if is_link(x):
        cache_bits(x, gt=above)
    return positive, ring_ops.sub(value, positive)


@rule(aten.leaky_relu.default)
def leaky_relu(x: Link, slope: float = 0.01) -> Link:
    """Return x where it is positive, else slope x."""
    fmt = format_of(x)
    positive, rest = _split(x, fmt)
    made = fmt.link(ring_ops.add(positive, times(rest, slope, fmt)))
    return cache_bits(made, gt=recall(x, "gt")) if slope >= 0 else made


@rule(aten.leaky_relu_backward.default, in_place=False)
def leaky_relu_backward(grad: AnyTensor, x: AnyTensor, slope: float, is_result: bool) -> Link:
    """Gradient of leaky relu."""
    fmt = format_of(grad, x)
    positive = masked(_above(x, 0), grad, fmt)
    return fmt.link(ring_ops.add(positive, times(ring_ops.sub(to_integers(grad, fmt), positive), slope, fmt)))


@rule(aten._prelu_kernel.default, in_place=False)
def prelu(x: AnyTensor, weight: AnyTensor) -> Link:
    """Return x where it is positive, else weight x."""
    fmt = format_of(x, weight)
    positive, rest = _split(x, fmt)
    return fmt.link(ring_ops.add(positive, product("mul", fmt.link(rest), weight, fmt)))


@rule(aten._prelu_kernel_backward.default, in_place=False)
def prelu_backward(grad: AnyTensor, x: AnyTensor, weight: AnyTensor) -> tuple[Link, Link]:
    """Gradients of prelu, for its input and for each element's weight."""
    fmt = format_of(grad, x, weight)
    positive = masked(_above(x, 0), grad, fmt)
    rest = fmt.link(ring_ops.sub(to_integers(grad, fmt), positive))
    of_input = fmt.link(ring_ops.add(positive, product("mul", rest, weight, fmt)))
    return of_input, fmt.link(product("mul", rest, x, fmt))


# --- with an exponential below zero ---------------------------------------------------------------------------


@rule(aten.elu.default)
def elu(x: Link, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Link:
    """Return scale x where x is positive, else scale alpha (e^(input_scale x) - 1); both are 0 at 0, so they add up."""
    fmt = format_of(x)
    positive, rest = _split(x, fmt)
    decay = exp_of_negative(fmt.link(times(rest, input_scale, fmt)))
    if is_followed():
        note(x, "decay", decay)
    curve = times(ring_ops.sub(content(decay), fmt.scale), alpha * scale, fmt)
    made = fmt.link(ring_ops.add(times(positive, scale, fmt), curve))
    return cache_bits(made, gt=recall(x, "gt")) if alpha >= 0 else made


rule(aten.celu.default)(lambda x, alpha=1.0: elu(x, alpha, 1, 1 / alpha))


@rule(aten.elu_backward.default, in_place=False)
def elu_backward(
    grad: AnyTensor, alpha: float, scale: float, input_scale: float, is_result: bool, x: AnyTensor
) -> Link:
    """Gradient of elu: scale where x is positive, else a multiple of the exponential, which the result contains."""
    fmt = format_of(grad, x)
    positive = masked(_above(x, 0), grad, fmt)
    rest = fmt.link(ring_ops.sub(to_integers(grad, fmt), positive))
    slope = _slope(x, alpha * scale, input_scale, is_result)
    return fmt.link(ring_ops.add(times(positive, scale, fmt), product("mul", rest, slope, fmt)))


def _slope(x: AnyTensor, factor: float, input_scale: float, is_result: bool) -> AnyTensor:
    """Return the slope of elu where x is negative; other elements are not used."""
    if not is_link(x):
        return (
            (x + factor) * input_scale if is_result else (x.clamp(max=0) * input_scale).exp() * (factor * input_scale)
        )
    fmt = format_of(x)
    if is_result:
        return fmt.link(times(ring_ops.add(content(x), to_integers(factor, fmt)), input_scale, fmt))
    decay = recall(x, "decay")
    if decay is None:
        decay = exp_of_negative(fmt.link(times(_split(x, fmt)[1], input_scale, fmt)))
    return fmt.link(times(content(decay), factor * input_scale, fmt))


# --- gates ----------------------------------------------------------------------------------------------------


def _both_halves(x: AnyTensor, dim: int, fmt: FixedPointFormat) -> list[Any]:
    count = x.shape[dim] // 2
    return [fmt.link(ring_ops.local(aten.slice.Tensor, to_integers(x, fmt), dim, at, at + count)) for at in (0, count)]


@rule(aten.glu.default, in_place=False)
def glu(x: Link, dim: int = -1) -> Link:
    """Return the first half times the sigmoid of the second one."""
    if x.shape[dim] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {x.shape[dim]}")
    first, second = _both_halves(x, dim, format_of(x))
    gate = sigmoid(second)
    if is_followed():
        note(x, "gate", gate, dim)
    return mul(first, gate)


@rule(aten.glu_backward.default, in_place=False)
def glu_backward(grad: AnyTensor, x: AnyTensor, dim: int) -> Link:
    """Gradient of glu."""
    fmt = format_of(grad, x)
    first, second = _both_halves(x, dim, format_of(x))
    gate = recall(x, "gate", dim)
    gate = sigmoid(second) if gate is None else gate
    open_part = mul(grad, gate)
    rest = mul(mul(open_part, first), sub(1, gate))
    return fmt.link(
        ring_ops.local(aten.cat.default, ring_ops.together([to_integers(open_part, fmt), to_integers(rest, fmt)]), dim)
    )
