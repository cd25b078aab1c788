"""Rules for + - * / and powers, with private and public operands on either side."""

from __future__ import annotations

from typing import Any

import torch

from syft.exceptions import UnsupportedOperation
from syft.mpc import values
from syft.mpc.encoding import decode_plain
from syft.mpc.rules import factors
from syft.mpc.rules.division import divide_whole, quotient, whole_quotient
from syft.mpc.rules.factors import product, times
from syft.mpc.rules.operands import (
    Form,
    Value,
    aten,
    content,
    form_of,
    is_link,
    rule,
    whole,
    writes,
)


def _scaled(value: Value, alpha: Any, form: Form) -> Value:
    return value if alpha == 1 else times(values.as_tensor(value), alpha, form)


@rule(aten.add.Tensor, aten.add.Scalar)
def add(x: Any, y: Any, alpha: Any = 1) -> Any:
    """Return x + alpha y."""
    form = form_of(x, y)
    return form.link(values.add(whole(x, form), _scaled(whole(y, form), alpha, form)))


@rule(aten.sub.Tensor, aten.sub.Scalar)
def sub(x: Any, y: Any, alpha: Any = 1) -> Any:
    """Return x - alpha y."""
    form = form_of(x, y)
    return form.link(values.sub(whole(x, form), _scaled(whole(y, form), alpha, form)))


@rule(aten.rsub.Scalar, aten.rsub.Tensor)
def rsub(x: Any, y: Any, alpha: Any = 1) -> Any:
    """Return y - alpha x."""
    return sub(y, x, alpha)


@rule(aten.neg.default)
def neg(x: Any) -> Any:
    """-x."""
    return form_of(x).link(values.neg(content(x)))


@rule(aten.mul.Tensor, aten.mul.Scalar)
def mul(x: Any, y: Any) -> Any:
    """Return x y, element by element."""
    form = form_of(x, y)
    return form.link(product("mul", x, y, form))


@rule(aten.div.Tensor, aten.div.Scalar)
def div(x: Any, y: Any) -> Any:
    """Return x / y; whole numbers have no fractions, so theirs is refused."""
    form = form_of(x, y)
    if form.model is None:
        raise UnsupportedOperation(
            "x / y of whole numbers",
            "AdditiveSharingTensor",
            "Use x // y, which rounds down, or encode before sharing: x.fix_precision().share(...).",
        )
    if is_link(y) and not values.is_shared(content(y)):
        y = decode_plain(y.child, y.scale)
    if is_link(y):
        return form.link(quotient(whole(x, form), whole(y, form), form.scale))
    return form.link(factors.divide(whole(x, form), y, form))


@rule(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    """Return x / y with a way of rounding: offered for whole numbers, rounded down."""
    if rounding_mode is None:
        return div(x, y)
    if rounding_mode != "floor":
        raise UnsupportedOperation(f"rounding_mode={rounding_mode!r}", "encrypted tensors", "Use 'floor'.")
    return floor_divide(x, y)


@writes(aten.floor_divide_.Tensor)
@rule(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(x: Any, y: Any) -> Any:
    """Return x // y for a public whole number y, or of private whole numbers (below 2^58; x // 0 is not defined)."""
    form = form_of(x, y)
    if is_link(y) and form.model is None:
        return form.link(whole_quotient(whole(x, form), whole(y, form)))
    if not is_link(x) or isinstance(y, torch.Tensor) or is_link(y) or not float(y).is_integer() or y == 0:
        raise UnsupportedOperation("// by anything but a public whole number", "encrypted tensors", "Use / instead.")
    return form.link(values.scale(divide_whole(content(x), int(y) * form.scale), form.scale))


@rule(aten.remainder.Scalar)
def remainder(x: Any, y: Any) -> Any:
    """Return x % y for a public number y, with the sign of y as in Python."""
    form = form_of(x)
    modulus = whole(y, form)
    if modulus == 0:
        raise ZeroDivisionError("an encrypted tensor can't be divided by zero")
    value = content(x)
    return form.link(values.sub(value, values.scale(divide_whole(value, modulus), modulus)))


@rule(aten.reciprocal.default)
def reciprocal(x: Any) -> Any:
    """1 / x."""
    form = form_of(x)
    if form.model is None:
        raise UnsupportedOperation("reciprocal", "AdditiveSharingTensor", "Encode before sharing with fix_precision().")
    return div(1, x)


@writes(aten.pow_.Scalar)
@rule(aten.pow.Tensor_Scalar)
def power(x: Any, exponent: Any) -> Any:
    """Return x to a public whole power, by squaring."""
    if not float(exponent).is_integer() or abs(exponent) > 64:
        raise UnsupportedOperation(f"The power {exponent}", "encrypted tensors", "Whole powers up to 64 work.")
    form, count = form_of(x), int(abs(exponent))
    if exponent < 0:
        return reciprocal(power(x, count))
    result: Value = None
    square = content(x)
    while count:
        if count & 1:
            result = square if result is None else values.mul(result, square, form.scale)
        count >>= 1
        if count:
            square = values.mul(square, square, form.scale)
    if result is None:
        result = values.add(values.scale(content(x), 0), form.scale)
    return form.link(result)


@rule(aten.square.default)
def square(x: Any) -> Any:
    """x^2."""
    return power(x, 2)


@rule(aten.addcmul.default)
def addcmul(x: Any, y: Any, z: Any, value: Any = 1) -> Any:
    """Return x + value y z."""
    if not is_link(y) and not is_link(z):
        return add(x, y * z, value)
    return add(x, mul(y, z), value)


@rule(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(x: Any, y: Any, weight: Any) -> Any:
    """Return x + weight (y - x)."""
    return add(x, mul(sub(y, x), weight))
