"""Rules for powers, standard deviations and norms of vectors.

Integer powers are computed by squaring, other powers of positive numbers as e^(n log x).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from syft.exceptions import UnsupportedOperationError
from syft.mpc.ring import arithmetic
from syft.mpc.rules.approximations import apply, encoded, exp, of_positive, on_plain, rsqrt, sqrt
from syft.mpc.rules.arithmetic import add, mul, power, reciprocal, sub
from syft.mpc.rules.comparison import absolute, ne
from syft.mpc.rules.normalization import squares_scale
from syft.mpc.rules.operands import FixedPointFormat, aten, content, format_of, is_link, rule, to_integers, writes
from syft.mpc.rules.public_scaling import times
from syft.mpc.rules.reduction import amax, amin, check_dtype, count_of, dims_of, mean, total
from syft.mpc.rules.types import AnyTensor, Dims, Link, Number, Value
from syft.mpc.values import ring_ops
from syft.mpc.values.encoding import encode_plain
from syft.tensors.precision import FixedPrecisionTensor

# The maximum of different integer powers that are computed one by one, and the maximum integer power.
MAX_POWERS = 8
MAX_INTEGER_POWER = 64
_POWERS: dict[float, Callable[[Link], Link]] = {0.5: sqrt, -0.5: rsqrt, -1.0: reciprocal}


@writes(aten.pow_.Scalar)
@rule(aten.pow.Tensor_Scalar)
def pow_scalar(x: Link, exponent: Number) -> Link:
    """Return x to a public power: integers by squaring, others of positive numbers as e^(n log x)."""
    if float(exponent) in _POWERS:
        return _POWERS[float(exponent)](x)
    if float(exponent).is_integer() and abs(exponent) <= MAX_INTEGER_POWER:
        return power(x, exponent)
    if float(exponent * 2).is_integer() and 0 < exponent < MAX_INTEGER_POWER:
        return mul(power(x, int(exponent)), sqrt(x))
    return exp(mul(_log_of_base(x), float(exponent)))


# The logarithm of a base that is not positive: small enough for e^(n log x) to be 0 for n from about 0.01 on, and large
# enough for its product with a private n (of up to 2^20 with 16 bits) to fit.
FAR_BELOW = -(1 << 10)


def _log_of_base(x: Link) -> Link:
    return apply(
        x,
        "pow",
        lambda v, f: ring_ops.run("root", v, kind="log", scale=f.scale, nothing=FAR_BELOW * f.scale),
        lambda v: torch.where(v > 0, v.clamp(min=torch.finfo(torch.float64).tiny).log(), torch.full_like(v, FAR_BELOW)),
    )


def _in_clear(operand: AnyTensor) -> AnyTensor:
    """Decode an operand that is encoded and not shared; return any other unchanged."""
    if isinstance(operand, FixedPrecisionTensor) and not ring_ops.is_shared(content(operand)):
        return content(operand).double() / operand.scale
    return operand


@rule(aten.pow.Tensor_Tensor, in_place=False)
def pow_tensor(x: AnyTensor, exponent: AnyTensor) -> AnyTensor:
    """Return x to powers element by element: public integers by squaring, others of positive numbers."""
    fmt = format_of(x, exponent)
    exponent = _in_clear(exponent)
    if is_link(exponent):
        base = _in_clear(x)
        if is_link(base):
            return exp(mul(_log_of_base(base), exponent))
        if not bool((base > 0).all()):
            raise _not_positive("x ** y of a public x that is not positive")
        return exp(mul(fmt.link(to_integers(exponent, fmt)), base.double().log()))
    if not is_link(x):
        return fmt.link(encode_plain(x.double() ** exponent, fmt.scale, fmt.field))
    is_integer = (exponent == exponent.round()) & (exponent.abs() <= MAX_INTEGER_POWER)
    if not bool(is_integer.any()):
        return exp(mul(_log_of_base(x), exponent))
    made = _integer_powers(x, torch.where(is_integer, exponent, 0).long())
    if bool(is_integer.all()):
        return made
    others = exp(mul(_log_of_base(x), torch.where(is_integer, 0, exponent)))
    return add(mul(made, is_integer.long()), mul(others, (~is_integer).long()))


def _integer_powers(x: Link, exponent: torch.Tensor) -> AnyTensor:
    """Return x to public integer powers: one by one if they are few, else bit by bit for all elements together."""
    powers = sorted(set(exponent.flatten().tolist()))
    shape = arithmetic.broadcast(tuple(x.shape), tuple(exponent.shape))
    made: AnyTensor = torch.zeros(shape)
    if len(powers) <= MAX_POWERS:
        for one in powers:
            made = add(made, mul(pow_scalar(x, one), (exponent == one).long()))
        return made
    negative = exponent < 0
    if bool(negative.any()):
        x = add(mul(x, (~negative).long()), mul(reciprocal(x), negative.long()))
    exponent, made = exponent.abs(), torch.ones(shape)
    while bool(exponent.any()):
        odd = exponent % 2
        made = mul(made, add(mul(x, odd), 1 - odd))
        exponent = exponent // 2
        x = power(x, 2) if bool(exponent.any()) else x
    return made


@rule(aten.pow.Scalar, in_place=False)
def scalar_pow(x: Number, exponent: Link) -> Link:
    """Return a positive public number to private powers."""
    if x <= 0:
        raise _not_positive(f"{x} ** y")
    return exp(mul(exponent, math.log(x)))


def _not_positive(call: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        call,
        "encrypted tensors",
        "The base must be positive, because a private y cannot be tested for integers. If all y are integers, use "
        "abs(x) ** y * (1 - 2 * (y % 2)) for a negative x.",
    )


# --- standard deviations and norms ------------------------------------------------------------------------------------


def _root_of_squares(value: Value, dims: list[int], keepdim: bool, fmt: FixedPointFormat, count: float = 1) -> Value:
    """Return sqrt(sum of squares / count) along dimensions.

    Squares are added up before they are rescaled, so that small squares are not rounded to zero.
    """
    if not ring_ops.is_shared(value):

        def plain(v: torch.Tensor) -> torch.Tensor:
            return of_positive(torch.sqrt)(((v * v).sum(dims, keepdim) if dims else v * v) / count)

        return on_plain(plain, value, fmt)
    scale, divisor = squares_scale(fmt)
    summed = ring_ops.total(ring_ops.run("square", value, divisor=divisor), dims, keepdim)
    integer_count = max(int(count), 1)
    part = count / integer_count
    summed = ring_ops.truncate(summed, integer_count) if integer_count > 1 else summed
    if part != 1:
        summed = times(summed, 1 / part, fmt)
    return ring_ops.run("root", summed, kind="sqrt", scale=scale, out=fmt.scale)


@rule(aten.std.correction, in_place=False)
def std(x: Link, dim: Dims = None, correction: float | None = 1, keepdim: bool = False) -> Link:
    """Standard deviation along dimensions."""
    fmt, dims = encoded(x, "std"), dims_of(x, dim)
    count = count_of(x, dims) - (1 if correction is None else correction)
    if count <= 0:
        raise ValueError("std() needs more elements than the correction.")
    distance = content(sub(x, mean(x, dims, True)))
    return fmt.link(_root_of_squares(distance, dims, keepdim, fmt, count))


rule(aten.std_mean.correction, in_place=False)(
    lambda x, dim=None, correction=1, keepdim=False: (std(x, dim, correction, keepdim), mean(x, dim, keepdim))
)


@rule(aten.linalg_vector_norm.default, in_place=False)
def vector_norm(
    x: Link, order: float = 2, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Link:
    """Norm of vectors along dimensions, of any order."""
    check_dtype(x, dtype)
    fmt, dims, order = encoded(x, "norm"), dims_of(x, dim), float(order)
    if order == 2:
        return fmt.link(_root_of_squares(content(x), dims, keepdim, fmt))
    if order == 0:
        return total(ne(x, 0), dims, keepdim)
    sizes = absolute(x)
    if order in _SUMMARIES:
        return _SUMMARIES[order](sizes, dims, keepdim)
    return pow_scalar(total(pow_scalar(sizes, order), dims, keepdim), 1 / order)


_SUMMARIES: dict[float, Callable[..., Link]] = {1.0: total, math.inf: amax, -math.inf: amin}
