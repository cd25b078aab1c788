"""Rules for training: operations of optimizers (addcmul, addcdiv, lerp), and dropout.

The state of an optimizer has finer formats than the parameters (see syft.mpc.optimizers), so these operations have
operands of different formats. A product is computed in the format of its result, or the square of a small gradient
would be zero; a quotient has no more digits than its dividend.
"""

from __future__ import annotations

import torch

from syft.mpc.rules.arithmetic import add, div, mul, quotient_in, sub
from syft.mpc.rules.comparison import maximum, minimum
from syft.mpc.rules.gradients import coarser
from syft.mpc.rules.operands import FixedPointFormat, aten, content, format_of, in_format, is_link, rule, write
from syft.mpc.rules.public_scaling import product, times
from syft.mpc.rules.types import AnyTensor, Link, Number, Operand
from syft.mpc.values import ring_ops
from syft.tensors.precision import FixedPrecisionTensor

# Finer factors lose digits before they are multiplied, so that the product fits.
FACTOR_BITS = 20


@rule(aten.addcmul.default)
def addcmul(x: AnyTensor, y: Operand, z: Operand, value: Number = 1) -> Link:
    """Return x + value y z."""
    if not is_link(y) and not is_link(z):
        return add(x, y * z, value)
    fmt = format_of(x, y, z)
    same = y is z
    y = _factor(y)
    return add(x, fmt.link(product("mul", y, y if same else _factor(z), fmt)), value)


def _factor(link: Operand) -> Operand:
    """Return an operand with few enough digits for a product to fit."""
    if not isinstance(link, FixedPrecisionTensor) or link.scale <= 1 << FACTOR_BITS:
        return link
    fmt = coarser(link, FACTOR_BITS)
    return fmt.link(in_format(link, fmt))


@rule(aten.addcdiv.default)
def addcdiv(x: AnyTensor, y: AnyTensor, z: AnyTensor, value: Number = 1) -> Link:
    """Return x + value y / z; x where z is zero, because x / 0 is 0 here."""
    if not is_link(y) and not is_link(z):
        return add(x, y / z, value)
    if not isinstance(z, FixedPrecisionTensor):
        return add(x, div(y, z), value)
    return add(x, _quotient(x, y, z), value)


def _quotient(x: AnyTensor, y: AnyTensor, z: FixedPrecisionTensor) -> Link:
    """Return y / z in the finer format of x and y.

    The error of a quotient depends on the unit of the dividend, so that gets the unit of the divisor first.
    """
    fmt, fine = format_of(x, y), format_of(y, z)
    if fmt.model is None:
        fmt = format_of(z)
    if z.scale > 1 << FACTOR_BITS and ring_ops.is_shared(z.child):
        return _by_reciprocal(y, z, fmt)
    return fmt.link(quotient_in(fmt, in_format(y, fine), in_format(z, fine)))


def _by_reciprocal(y: AnyTensor, z: FixedPrecisionTensor, fmt: FixedPointFormat) -> Link:
    """Return y (1 / z): relative error 2^-15, which is enough for a step, in less than half the rounds."""
    inner = coarser(z, FACTOR_BITS)
    inverse = inner.link(ring_ops.run("root", z.child, kind="reciprocal", scale=z.scale, out=inner.scale))
    return fmt.link(product("mul", y, inverse, fmt))


rule(aten.lerp.Scalar, aten.lerp.Tensor)(lambda x, y, weight: add(x, mul(sub(y, x), weight)))
rule(aten.maximum.out, in_place=False, views=True)(lambda x, y, out: write(out, maximum(x, y), "out="))
rule(aten.minimum.out, in_place=False, views=True)(lambda x, y, out: write(out, minimum(x, y), "out="))


# --- random operations ------------------------------------------------------------------------------------------------


@rule(aten.native_dropout.default, in_place=False)
def native_dropout(x: Link, probability: float, train: bool | None) -> tuple[Link, torch.Tensor]:
    """Drop random elements in training; the mask is public."""
    if not train or not probability:
        kept = format_of(x).link(ring_ops.local(aten.clone.default, content(x)))
        return kept, torch.ones(tuple(x.shape), dtype=torch.bool)
    # The mask is public, so it comes from torch's generator: training can be repeated from a seed.
    mask = torch.rand(tuple(x.shape)) >= probability
    kept = mul(x, mask)
    fmt = format_of(kept)
    return fmt.link(times(content(kept), 1 / (1 - probability), fmt) if probability < 1 else content(kept)), mask


rule(aten.native_dropout_backward.default, in_place=False)(lambda grad, mask, scale: mul(mul(grad, mask), scale))


@rule(aten.bernoulli_.float, in_place=False, views=True)
def bernoulli(x: Link, probability: float = 0.5, generator: torch.Generator | None = None) -> Link:
    """Fill with public random ones and zeros, as a mask of dropout."""
    drawn = torch.bernoulli(torch.full(tuple(x.shape), probability), generator=generator).long()
    fmt = format_of(x)
    x.child = drawn * fmt.scale if fmt.model is not None else ring_ops.public(drawn, content(x)).child
    return x
