"""Rules for + - * / and powers, with private and public operands on either side."""

from __future__ import annotations

import torch

from syft.exceptions import UnsupportedOperation
from syft.mpc.rules import public_scaling
from syft.mpc.rules.division import divide_whole, whole_quotient
from syft.mpc.rules.gradients import MORE_BITS, finer, on_the_way_back
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
    write,
    writes,
)
from syft.mpc.rules.public_scaling import digits, product, times
from syft.mpc.rules.quotients import divided, quotient_in
from syft.mpc.values import ring_ops
from syft.tensors.precision import FixedPrecisionTensor


def _scaled(value: Value | int, alpha: float, form: FixedPointFormat) -> Value | int:
    return value if alpha == 1 else times(ring_ops.as_tensor(value), alpha, form)


@rule(aten.add.Tensor, aten.add.Scalar, in_place=False)
def add(x: Operand, y: Operand, alpha: float = 1) -> Link:
    """Return x + alpha y."""
    form, x, y = form_of(x, y), floored(x), floored(y)
    return form.link(ring_ops.add(whole(x, form), _scaled(whole(y, form), alpha, form)))


@writes(aten.add_.Tensor, aten.add_.Scalar)
def add_to(x: Link, y: Operand, alpha: float = 1) -> Link:
    """Return x + alpha y for what is written to x; where y has more digits, as gradients have, rounding once."""
    if isinstance(x, FixedPrecisionTensor) and isinstance(y, FixedPrecisionTensor) and y.scale > x.scale:
        factor = digits(alpha, form_of(x, y))
        if isinstance(factor.first, int) and not factor.finer:
            step = ring_ops.product("mul", content(y), factor.first, factor.scale * (y.scale // x.scale))
            return x.like(ring_ops.add(content(x), step))
    return add(x, y, alpha)


@rule(aten.sub.Tensor, aten.sub.Scalar)
def sub(x: Operand, y: Operand, alpha: float = 1) -> Link:
    """Return x - alpha y."""
    form = form_of(x, y)
    return form.link(ring_ops.sub(whole(x, form), _scaled(whole(y, form), alpha, form)))


@rule(aten.rsub.Scalar, aten.rsub.Tensor)
def rsub(x: Operand, y: Operand, alpha: float = 1) -> Link:
    """Return y - alpha x."""
    return sub(y, x, alpha)


@rule(aten.neg.default)
def neg(x: Link) -> Link:
    """-x."""
    return form_of(x).link(ring_ops.neg(content(x)))


@rule(aten.mul.Tensor, aten.mul.Scalar)
def mul(x: Operand, y: Operand) -> Link:
    """Return x y, element by element."""
    form = form_of(x, y)
    return form.link(product("mul", x, y, form))


@rule(aten.div.Tensor, aten.div.Scalar, in_place=False)
def div(x: Operand, y: Operand) -> Link:
    """Return x / y; whole numbers have no fractions, so theirs is refused."""
    form = form_of(x, y)
    if form.model is None:
        raise UnsupportedOperation(
            "x / y of whole numbers",
            "AdditiveSharingTensor",
            "Use x // y, which rounds down, or encode before sharing: x.fix_precision().share(...).",
        )
    if is_link(y) and is_link(x) and ring_ops.is_shared(content(x)) and not ring_ops.is_shared(content(y)):
        return _by_known(x, y)
    if is_link(y):
        return form.link(quotient_in(form, whole(x, form), whole(y, form)))
    if on_the_way_back():
        form = finer(form, _largest(y))
    return form.link(public_scaling.divide(whole(x, form), y, form))


def _by_known(x: Link, y: Link) -> Link:
    """Divide by a link whose numbers are here; as on shares, x / 0 is 0."""
    known = content(y).double() / y.scale
    made = div(x, torch.where(known == 0, 1.0, known))
    return made if bool(known.all()) else mul(made, (known != 0).long())


def _largest(divisor: torch.Tensor | float) -> float:
    """Return the size of a public divisor, or of the largest element of one."""
    if not isinstance(divisor, torch.Tensor):
        return abs(float(divisor))
    return float(divisor.abs().max()) if divisor.numel() else 1.0


@rule(aten.div_.Tensor, aten.div_.Scalar, in_place=False, views=True)
def div_in_place(x: AnyTensor, y: Operand) -> Link:
    """Divide in place; a gradient that torch is making takes on the digits that this takes (see `gradients`)."""
    made = div(x, y)
    if on_the_way_back() and isinstance(x, FixedPrecisionTensor) and x.stands_alone:
        x.precision_fractional = made.precision_fractional
    return write(x, made, "div_")


@rule(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(x: Operand, y: Operand, rounding_mode: str | None = None) -> Link:
    """Return x / y with a way of rounding: offered for whole numbers, rounded down."""
    if rounding_mode is None:
        return div(x, y)
    if rounding_mode != "floor":
        raise UnsupportedOperation(f"rounding_mode={rounding_mode!r}", "encrypted tensors", "Use 'floor'.")
    return floor_divide(x, y)


@writes(aten.floor_divide_.Tensor)
@rule(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(x: Operand, y: Operand) -> Link:
    """Return x // y for a public whole number y, or of private whole numbers (below 2^58; x // 0 is not defined)."""
    form = form_of(x, y)
    if is_link(y) and form.model is None:
        return form.link(whole_quotient(whole(x, form), whole(y, form)))
    if not is_link(x) or isinstance(y, torch.Tensor) or is_link(y) or not float(y).is_integer() or y == 0:
        raise UnsupportedOperation("// by anything but a public whole number", "encrypted tensors", "Use / instead.")
    return form.link(ring_ops.scale(divide_whole(content(x), int(y) * form.scale), form.scale))


@rule(aten.remainder.Scalar)
def remainder(x: Link, y: Number) -> Link:
    """Return x % y for a public number y, with the sign of y as in Python."""
    form = form_of(x)
    modulus = whole(y, form)
    if modulus == 0:
        raise ZeroDivisionError("an encrypted tensor can't be divided by zero")
    value = content(x)
    return form.link(ring_ops.sub(value, ring_ops.scale(divide_whole(value, modulus), modulus)))


@rule(aten.reciprocal.default)
def reciprocal(x: Link) -> Link:
    """1 / x."""
    form = form_of(x)
    if form.model is None:
        raise UnsupportedOperation("reciprocal", "AdditiveSharingTensor", "Encode before sharing with fix_precision().")
    value = content(x)
    # A single number, such as what gradients are clipped by, may be small: it gets more digits.
    fine = form if len(x.shape) else finer(form, 1 << MORE_BITS)
    if not ring_ops.is_shared(value):
        return fine.link(divided(form.scale, value, fine.scale))
    return fine.link(ring_ops.run("root", value, kind="reciprocal", scale=form.scale, out=fine.scale))


def power(x: Link, exponent: Number) -> Link:
    """Return x to a public whole power, by squaring."""
    if not float(exponent).is_integer() or abs(exponent) > 64:
        raise UnsupportedOperation(f"The power {exponent}", "encrypted tensors", "Whole powers up to 64 work.")
    form, count = form_of(x), int(abs(exponent))
    if exponent < 0:
        return power(reciprocal(x), count)
    result: Value | None = None
    square = content(x)
    while count:
        if count & 1:
            result = square if result is None else ring_ops.mul(result, square, form.scale)
        count >>= 1
        if count:
            square = ring_ops.mul(square, square, form.scale)
    if result is None:
        result = ring_ops.add(ring_ops.scale(content(x), 0), form.scale)
    return form.link(result)


@rule(aten.square.default)
def square(x: Link) -> Link:
    """x^2."""
    return power(x, 2)
