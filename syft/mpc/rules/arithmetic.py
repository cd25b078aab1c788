"""Rules for + - * / and powers, with private and public operands on either side."""

from __future__ import annotations

import torch

from syft.exceptions import UnsupportedOperationError
from syft.mpc.rules import public_scaling
from syft.mpc.rules.gradients import MAX_EXTRA_BITS, coarser, finer, in_backward
from syft.mpc.rules.operands import (
    FixedPointFormat,
    aten,
    content,
    format_of,
    is_link,
    rule,
    to_integers,
    with_finite_mask,
    write,
    writes,
)
from syft.mpc.rules.public_scaling import digits, product, times
from syft.mpc.rules.types import AnyTensor, Link, Number, Operand, Term, Value
from syft.mpc.values import ring_ops
from syft.tensors.precision import FixedPrecisionTensor

# Quotients have no finer units: the protocol supports scales up to 2^40, with an odd part up to 2^24.
QUOTIENT_BITS = 34


def _scaled(value: Value | int, alpha: float, fmt: FixedPointFormat) -> Value | int:
    return value if alpha == 1 else times(ring_ops.as_tensor(value), alpha, fmt)


@rule(aten.add.Tensor, aten.add.Scalar, in_place=False)
def add(x: Operand, y: Operand, alpha: float = 1) -> Link:
    """Return x + alpha y."""
    fmt, x, y = format_of(x, y), with_finite_mask(x), with_finite_mask(y)
    return fmt.link(ring_ops.add(to_integers(x, fmt), _scaled(to_integers(y, fmt), alpha, fmt)))


@writes(aten.add_.Tensor, aten.add_.Scalar)
def add_to(x: Link, y: Operand, alpha: float = 1) -> Link:
    """Return x + alpha y for writing to x; rounds once if y has more digits, as gradients have."""
    if isinstance(x, FixedPrecisionTensor) and isinstance(y, FixedPrecisionTensor) and y.scale > x.scale:
        factor = digits(alpha, format_of(x, y))
        if isinstance(factor.first, int) and not factor.finer:
            step = ring_ops.product("mul", content(y), factor.first, factor.scale * (y.scale // x.scale))
            return x.like(ring_ops.add(content(x), step))
    return add(x, y, alpha)


@rule(aten.sub.Tensor, aten.sub.Scalar)
def sub(x: Operand, y: Operand, alpha: float = 1) -> Link:
    """Return x - alpha y."""
    fmt = format_of(x, y)
    return fmt.link(ring_ops.sub(to_integers(x, fmt), _scaled(to_integers(y, fmt), alpha, fmt)))


rule(aten.rsub.Scalar, aten.rsub.Tensor)(lambda x, y, alpha=1: sub(y, x, alpha))
rule(aten.neg.default)(lambda x: format_of(x).link(ring_ops.neg(content(x))))


@rule(aten.mul.Tensor, aten.mul.Scalar)
def mul(x: Operand, y: Operand) -> Link:
    """Return x y, element by element."""
    fmt = format_of(x, y)
    return fmt.link(product("mul", x, y, fmt))


def public_part(grad: AnyTensor | float) -> AnyTensor | float:
    """Return a public gradient as a number or a plain tensor, a private one unchanged."""
    if is_link(grad):
        if ring_ops.is_shared(content(grad)):
            return grad
        grad = content(grad).double() / format_of(grad).scale
    return float(grad) if isinstance(grad, float) or grad.numel() == 1 else grad.double()


def chain_rule(slope: AnyTensor, grad: AnyTensor | float, count: float = 1) -> Link:
    """Return the slope of a loss times the incoming gradient, divided by a count: that of elements, for means."""
    fmt = finer(format_of(slope, grad), count)
    factor = public_part(grad)
    if is_link(factor):
        made = mul(fmt.link(to_integers(slope, fmt)), factor)
        return made if count == 1 else fmt.link(public_scaling.divide(content(made), count, fmt))
    if is_link(slope):
        return fmt.link(times(to_integers(slope, fmt), factor / count, fmt))
    return fmt.link(to_integers(slope.double() * factor / count, fmt))


# --- division; x / 0 is 0, plain or shared ----------------------------------------------------------------------------


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


@rule(aten.div.Tensor, aten.div.Scalar, in_place=False)
def div(x: Operand, y: Operand) -> Link:
    """Return x / y; refused for whole numbers, which have no digits for fractions."""
    fmt = format_of(x, y)
    if fmt.model is None:
        raise UnsupportedOperationError(
            "x / y of whole numbers",
            "AdditiveSharingTensor",
            "Use x // y, which rounds down, or encode before sharing: x.fix_precision().share(...).",
        )
    if is_link(y) and is_link(x) and ring_ops.is_shared(content(x)) and not ring_ops.is_shared(content(y)):
        return _by_plain_link(x, y)
    if is_link(y):
        return fmt.link(quotient_in(fmt, to_integers(x, fmt), to_integers(y, fmt)))
    if in_backward():
        fmt = finer(fmt, _largest(y))
    return fmt.link(public_scaling.divide(to_integers(x, fmt), y, fmt))


def _by_plain_link(x: Link, y: Link) -> Link:
    """Divide by an encoded tensor that is not shared; as on shares, x / 0 is 0."""
    values = content(y).double() / y.scale
    made = div(x, torch.where(values == 0, 1.0, values))
    return made if bool(values.all()) else mul(made, (values != 0).long())


def _largest(divisor: torch.Tensor | float) -> float:
    """Return the largest absolute value of a public divisor."""
    if not isinstance(divisor, torch.Tensor):
        return abs(float(divisor))
    return float(divisor.abs().max()) if divisor.numel() else 1.0


@rule(aten.div_.Tensor, aten.div_.Scalar, in_place=False, views=True)
def div_in_place(x: AnyTensor, y: Operand) -> Link:
    """Divide in place; gradients get more digits for it (see `gradients`)."""
    made = div(x, y)
    if in_backward() and isinstance(x, FixedPrecisionTensor) and x.stands_alone:
        x.precision_fractional = made.precision_fractional
    return write(x, made, "div_")


@rule(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(x: Operand, y: Operand, rounding_mode: str | None = None) -> Link:
    """Return x / y with a rounding mode; only "floor" is supported."""
    if rounding_mode is None:
        return div(x, y)
    if rounding_mode != "floor":
        raise UnsupportedOperationError(f"rounding_mode={rounding_mode!r}", "encrypted tensors", "Use 'floor'.")
    return floor_divide(x, y)


@writes(aten.floor_divide_.Tensor)
@rule(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(x: Operand, y: Operand) -> Link:
    """Return x // y for a public whole number y, or of private whole numbers (below 2^58; x // 0 is not defined)."""
    fmt = format_of(x, y)
    if is_link(y) and fmt.model is None:
        return fmt.link(ring_ops.run("floor_divide", *ring_ops.together([to_integers(x, fmt), to_integers(y, fmt)])))
    if not is_link(x) or isinstance(y, torch.Tensor) or is_link(y) or not float(y).is_integer() or y == 0:
        raise UnsupportedOperationError(
            "// by anything but a public whole number", "encrypted tensors", "Use / instead."
        )
    return fmt.link(ring_ops.scale(floor_divide_public(content(x), int(y) * fmt.scale), fmt.scale))


@rule(aten.remainder.Scalar)
def remainder(x: Link, y: Number) -> Link:
    """Return x % y for a public number y, with the sign of y as in Python."""
    fmt = format_of(x)
    modulus = to_integers(y, fmt)
    if modulus == 0:
        raise ZeroDivisionError("an encrypted tensor can't be divided by zero")
    value = content(x)
    return fmt.link(ring_ops.sub(value, ring_ops.scale(floor_divide_public(value, modulus), modulus)))


@rule(aten.reciprocal.default)
def reciprocal(x: Link) -> Link:
    """1 / x."""
    fmt = format_of(x)
    if fmt.model is None:
        raise UnsupportedOperationError(
            "reciprocal", "AdditiveSharingTensor", "Encode before sharing with fix_precision()."
        )
    value = content(x)
    # A scalar, such as a norm for gradient clipping, may be small: it gets more digits.
    fine = fmt if len(x.shape) else finer(fmt, 1 << MAX_EXTRA_BITS)
    if not ring_ops.is_shared(value):
        return fine.link(divided(fmt.scale, value, fine.scale))
    return fine.link(ring_ops.run("root", value, kind="reciprocal", scale=fmt.scale, out=fine.scale))


def power(x: Link, exponent: Number) -> Link:
    """Return x to a public whole power, by squaring."""
    if not float(exponent).is_integer() or abs(exponent) > 64:
        raise UnsupportedOperationError(f"The power {exponent}", "encrypted tensors", "Whole powers up to 64 work.")
    fmt, count = format_of(x), int(abs(exponent))
    if exponent < 0:
        return power(reciprocal(x), count)
    result: Value | None = None
    square = content(x)
    while count:
        if count & 1:
            result = square if result is None else ring_ops.mul(result, square, fmt.scale)
        count >>= 1
        if count:
            square = ring_ops.mul(square, square, fmt.scale)
    if result is None:
        result = ring_ops.add(ring_ops.scale(content(x), 0), fmt.scale)
    return fmt.link(result)


rule(aten.square.default)(lambda x: power(x, 2))
