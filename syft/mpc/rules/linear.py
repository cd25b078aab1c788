"""Rules for matrix products, convolutions, the inverse and the QR decomposition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from syft.exceptions import SyftError, UnsupportedOperationError
from syft.hook.composed import composed
from syft.mpc.rules.approximations import encoded
from syft.mpc.rules.arithmetic import add, mul
from syft.mpc.rules.operands import FixedPointFormat, aten, content, format_of, is_link, reshaped, rule, to_integers
from syft.mpc.rules.public_scaling import product
from syft.mpc.rules.types import AnyTensor, Link, Operand, Sizes, Value
from syft.mpc.runtime import client
from syft.mpc.values import ring_ops
from syft.mpc.values.encoding import encode_plain


@rule(aten.mm.default, aten.bmm.default, aten.mv.default, aten.dot.default, aten.vdot.default, in_place=False)
def matmul(x: AnyTensor, y: Operand) -> Link:
    """Return x @ y, in this order, whichever of them is private."""
    fmt = format_of(x, y)
    return fmt.link(product("matmul", x, y, fmt))


def _plus_bias(made: AnyTensor, bias: Operand, beta: float, alpha: float) -> AnyTensor:
    made = made if alpha == 1 else mul(made, alpha)
    return made if beta == 0 else add(made, bias if beta == 1 else mul(bias, beta))


@rule(aten.addmm.default, aten.baddbmm.default, aten.addmv.default)
def addmm(bias: AnyTensor, x: AnyTensor, y: AnyTensor, beta: float = 1, alpha: float = 1) -> AnyTensor:
    """Return beta bias + alpha x @ y."""
    return _plus_bias(matmul(x, y) if is_link(x) or is_link(y) else x @ y, bias, beta, alpha)


@rule(aten.addbmm.default)
def addbmm(bias: AnyTensor, x: AnyTensor, y: AnyTensor, beta: float = 1, alpha: float = 1) -> AnyTensor:
    """Return beta bias + alpha times the sum of x @ y over the batch."""
    if not is_link(x) and not is_link(y):
        return addmm(bias, torch.eye(x.shape[1], dtype=x.dtype), torch.bmm(x, y).sum(0), beta, alpha)
    fmt = format_of(x, y)
    return _plus_bias(fmt.link(ring_ops.total(product("matmul", x, y, fmt), [0])), bias, beta, alpha)


@rule(aten.addr.default)
def addr(bias: Operand, x: AnyTensor, y: AnyTensor, beta: float = 1, alpha: float = 1) -> AnyTensor:
    """Return beta bias + alpha x y^T, of vectors."""
    return _plus_bias(mul(reshaped(x, [x.shape[0], 1]), y), bias, beta, alpha)


@composed(torch.bilinear, F.bilinear)
def bilinear(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Return x^T W y for each matrix W, and add the bias."""
    made = torch.einsum("...oj,...j->...o", torch.einsum("...i,oij->...oj", x, weight), y)
    return made if bias is None else made + bias


@rule(aten.convolution.default, in_place=False)
def convolution(
    x: AnyTensor, weight: AnyTensor, bias: AnyTensor | None, stride: Sizes, padding: Sizes, dilation: Sizes,
    transposed: bool, output_padding: Sizes, groups: int,
) -> Link:  # fmt: skip
    """Convolve, with any stride, padding, dilation and groups, with or without a bias."""
    fmt = format_of(x, weight, bias)
    count = len(x.shape) - 2
    stride, padding, dilation = _each(count, stride, padding, dilation)
    options: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if transposed:
        options |= {"transposed": True, "output_padding": _each(count, output_padding)[0]}
    made = product("conv", x, weight, fmt, **options)
    if bias is not None:
        made = ring_ops.add(made, _per_channel(to_integers(bias, fmt), count))
    return fmt.link(made)


def _each(count: int, *options: Sizes) -> list[tuple[int, ...]]:
    """Return options for every spatial dimension: torch passes some once for all of them."""
    return [tuple(option) * count if len(option) == 1 else tuple(option) for option in options]


def _per_channel(value: Value, spatial: int) -> Value:
    return ring_ops.reshape(value, [*ring_ops.shape_of(value), *[1] * spatial])


@rule(aten.convolution_backward.default, in_place=False)
def convolution_backward(
    grad: AnyTensor, x: AnyTensor, weight: AnyTensor, bias_sizes: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes,
    transposed: bool, output_padding: Sizes, groups: int, wanted: Sequence[bool],
) -> tuple[Link | None, ...]:  # fmt: skip
    """Gradients of a convolution for input, weight and bias.

    A transposed convolution is the gradient of an ordinary one, so its gradient is an ordinary one, and the gradient of
    its weight swaps image and gradient.
    """
    fmt = format_of(grad, x, weight)
    spatial = len(x.shape) - 2
    stride, padding, dilation = _each(spatial, stride, padding, dilation)
    options: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    grads: list[Any] = [None, None, None]
    if wanted[0] and transposed:
        grads[0] = fmt.link(_cropped(product("conv", grad, weight, fmt, **options), x.shape))
    elif wanted[0]:
        rest = _unused(x, grad, weight, stride, padding, dilation)
        grads[0] = fmt.link(product("conv", grad, weight, fmt, transposed=True, output_padding=rest, **options))
    if wanted[1]:
        image, spread = (grad, x) if transposed else (x, grad)
        grads[1] = _grad_of_weight(spread, image, weight, fmt, **options)
    if wanted[2]:
        grads[2] = fmt.link(ring_ops.total(to_integers(grad, fmt), [0, *range(2, 2 + spatial)]))
    return tuple(grads)


def _unused(
    x: AnyTensor, grad: AnyTensor, weight: AnyTensor, stride: Sizes, padding: Sizes, dilation: Sizes,
) -> tuple[int, ...]:  # fmt: skip
    """Return the part of the image behind the last window, for each dimension."""
    images, gradients, windows = x.shape[2:], grad.shape[2:], weight.shape[2:]
    return tuple(
        images[i] - (gradients[i] - 1) * stride[i] + 2 * padding[i] - dilation[i] * (windows[i] - 1) - 1
        for i in range(len(stride))
    )


def _cropped(value: Value, shape: Sizes) -> Value:
    """Crop spatial dimensions to a shape."""
    for i in range(2, len(shape)):
        if ring_ops.shape_of(value)[i] > shape[i]:
            value = ring_ops.local(aten.slice.Tensor, value, i, 0, shape[i])
    return value


def _grad_of_weight(
    grad: AnyTensor, x: AnyTensor, weight: AnyTensor, fmt: FixedPointFormat, stride: Sizes, padding: Sizes,
    dilation: Sizes, groups: int,
) -> Link:  # fmt: skip
    """Convolve image and gradient, with batch and channels swapped in each group, and stride and dilation swapped."""
    sizes = [weight.shape[1], weight.shape[0], *weight.shape[2:]]
    if not x.shape[0]:  # torch returns an empty result for no channels, not zeros
        return fmt.link(torch.zeros(tuple(weight.shape), dtype=torch.int64))
    made = product(
        "conv", _batch_last(x, groups, fmt), _permuted(grad, [1, 0, *range(2, len(x.shape))], fmt), fmt,
        stride=dilation, padding=padding, dilation=stride, groups=groups,
    )  # fmt: skip
    return fmt.link(ring_ops.local(aten.transpose.int, _cropped(made, sizes), 0, 1))


def _permuted(x: AnyTensor, order: list[int], fmt: FixedPointFormat) -> AnyTensor:
    if not is_link(x):
        return x.permute(order)
    return fmt.link(ring_ops.permute(to_integers(x, fmt), order))


def _batch_last(x: AnyTensor, groups: int, fmt: FixedPointFormat) -> AnyTensor:
    """Return images as (channels of a group, groups x batch, ...), to sum over the batch in each group."""
    batch, channels, *sizes = x.shape
    if not groups or channels % groups:
        raise RuntimeError(f"convolution: {channels} channels are not divisible into {groups} groups")
    inner = channels // groups
    if groups == 1:
        return _permuted(x, [1, 0, *range(2, len(x.shape))], fmt)
    order = [2, 1, 0, *range(3, 3 + len(sizes))]
    if not is_link(x):
        return x.reshape(batch, groups, inner, *sizes).permute(order).reshape(inner, groups * batch, *sizes)
    turned = ring_ops.permute(ring_ops.reshape(to_integers(x, fmt), [batch, groups, inner, *sizes]), order)
    return fmt.link(ring_ops.reshape(turned, [inner, groups * batch, *sizes]))


# --- inverse and QR decomposition -----------------------------------------------------------------------------


def _encode(tensor: torch.Tensor, fmt: FixedPointFormat) -> Link:
    return fmt.link(encode_plain(tensor, fmt.scale, fmt.field))


@rule(aten.linalg_inv_ex.default, in_place=False)
def inverse(x: Link, check_errors: bool = False) -> tuple[Any, torch.Tensor]:
    """Invert a square matrix, or each of a batch (see the protocol `inverse` for its domain and error).

    A shared matrix that is singular raises no error, because no party can detect it.
    """
    fmt = encoded(x, "The inverse")
    if len(x.shape) < 2 or x.shape[-2] != x.shape[-1]:
        raise SyftError(f"inverse() requires a square matrix, got shape {tuple(x.shape)}.")
    value = content(x)
    if ring_ops.is_shared(value):
        nothing = torch.zeros(x.shape[:-2], dtype=torch.int32)
        return fmt.link(ring_ops.run("inverse", value, scale=fmt.scale)), nothing
    found, info = torch.linalg.inv_ex(value.double() / fmt.scale, check_errors=check_errors)
    if bool((info != 0).any()):
        raise SyftError("inverse() got a matrix that is singular, so it has no inverse.")
    return _encode(found, fmt), info


@rule(aten.linalg_qr.default, in_place=False)
def qr(x: Link, mode: str = "reduced") -> tuple[Any, Any]:
    """Write a matrix as Q R (see the protocol `qr` for its domain and error); with mode "r" Q is empty, as in torch."""
    fmt = encoded(x, "QR")
    if len(x.shape) != 2:
        raise UnsupportedOperationError(
            "qr of anything but one matrix", "encrypted tensors", "Decompose matrices one by one."
        )
    value = content(x)
    if not ring_ops.is_shared(value):
        q, r = torch.linalg.qr(value.double() / fmt.scale, mode)
        return _encode(q, fmt), _encode(r, fmt)
    made = client.run("qr", value, scale=fmt.scale, mode=mode)
    if mode == "r":
        return fmt.link(torch.zeros(0, dtype=torch.int64)), fmt.link(made)
    return fmt.link(made[0]), fmt.link(made[1])
