"""Rules for what optimizers do to parameters and to their own state: x + v y z, x + v y / z, a step from x towards y.

The state of an optimizer is kept in finer forms than the parameters (syft.mpc.optimizers), so operands of different
forms meet here. A product is made in the form of its result, or the square of a small gradient would be zero; a
quotient has no more digits than its dividend has.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from syft.hook.composed import composed
from syft.mpc.rules.arithmetic import add, div, mul, sub
from syft.mpc.rules.comparison import maximum, minimum
from syft.mpc.rules.gradients import coarser
from syft.mpc.rules.operands import (
    AnyTensor,
    FixedPointFormat,
    Link,
    Number,
    Operand,
    aten,
    form_of,
    in_form,
    is_link,
    rule,
    write,
)
from syft.mpc.rules.public_scaling import product
from syft.mpc.rules.quotients import quotient_in
from syft.mpc.values import ring_ops
from syft.tensors.precision import FixedPrecisionTensor

# Factors that are finer than this lose digits before they are multiplied, so that the product has room.
FACTOR_BITS = 20


@rule(aten.addcmul.default)
def addcmul(x: AnyTensor, y: Operand, z: Operand, value: Number = 1) -> Link:
    """Return x + value y z."""
    if not is_link(y) and not is_link(z):
        return add(x, y * z, value)
    form = form_of(x, y, z)
    same = y is z
    y = _factor(y)
    return add(x, form.link(product("mul", y, y if same else _factor(z), form)), value)


def _factor(link: Operand) -> Operand:
    """Return an operand with no more digits than leave room for a product."""
    if not isinstance(link, FixedPrecisionTensor) or link.scale <= 1 << FACTOR_BITS:
        return link
    form = coarser(link, FACTOR_BITS)
    return form.link(in_form(link, form))


@rule(aten.addcdiv.default)
def addcdiv(x: AnyTensor, y: AnyTensor, z: AnyTensor, value: Number = 1) -> Link:
    """Return x + value y / z; where z is zero that is x, on shares or not, as x / 0 is 0 here."""
    if not is_link(y) and not is_link(z):
        return add(x, y / z, value)
    if not isinstance(z, FixedPrecisionTensor):
        return add(x, div(y, z), value)
    return add(x, _quotient(x, y, z), value)


def _quotient(x: AnyTensor, y: AnyTensor, z: FixedPrecisionTensor) -> Link:
    """Return y / z in the finer form of x and y.

    A quotient is off by as much as a unit of the dividend makes, so that one is given the units of the divisor first.
    """
    form, fine = form_of(x, y), form_of(y, z)
    if form.model is None:
        form = form_of(z)
    if z.scale > 1 << FACTOR_BITS and ring_ops.is_shared(z.child):
        return _by_reciprocal(y, z, form)
    return form.link(quotient_in(form, in_form(y, fine), in_form(z, fine)))


def _by_reciprocal(y: AnyTensor, z: FixedPrecisionTensor, form: FixedPointFormat) -> Link:
    """Return y (1 / z): off by 2^-15 of the quotient, in less than half the rounds; that is enough for a step."""
    inner = coarser(z, FACTOR_BITS)
    inverse = inner.link(ring_ops.run("root", z.child, kind="reciprocal", scale=z.scale, out=inner.scale))
    return form.link(product("mul", y, inverse, form))


@rule(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(x: AnyTensor, y: Operand, weight: AnyTensor) -> Link:
    """Return x + weight (y - x)."""
    return add(x, mul(sub(y, x), weight))


def _into(choose: Callable[[Operand, Operand], Link]) -> Callable[[Operand, Operand, Link], Link]:
    """Make the rule of a call that writes to `out`."""

    def run(x: Operand, y: Operand, out: Link) -> Link:
        return write(out, choose(x, y), "out=")

    return run


rule(aten.maximum.out, in_place=False, views=True)(_into(maximum))
rule(aten.minimum.out, in_place=False, views=True)(_into(minimum))


@composed(torch.Tensor.__rdiv__, torch.Tensor.__rtruediv__)
def number_over(x: torch.Tensor, number: Number) -> torch.Tensor:
    """Divide a public number by a tensor: torch multiplies by 1 / x, which has no room in the finest forms."""
    link = getattr(x, "child", None)
    if isinstance(link, FixedPrecisionTensor) and link.scale > 1 << FACTOR_BITS + 10:
        return torch.div(torch.tensor(float(number)), x)
    return x.reciprocal() * number
