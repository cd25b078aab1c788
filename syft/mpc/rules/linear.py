"""Rules for products of matrices and for convolutions."""

from __future__ import annotations

from typing import Any

import torch

from syft.exceptions import UnsupportedOperation
from syft.mpc import values
from syft.mpc.rules.arithmetic import add, mul
from syft.mpc.rules.factors import product
from syft.mpc.rules.operands import Form, Value, aten, form_of, is_link, rule, whole


@rule(aten.mm.default, aten.bmm.default, aten.mv.default, aten.dot.default, aten.vdot.default, in_place=False)
def matmul(x: Any, y: Any) -> Any:
    """Return x @ y, in this order, whichever of them is private."""
    form = form_of(x, y)
    return form.link(product("matmul", x, y, form))


@rule(aten.addmm.default, aten.baddbmm.default, aten.addmv.default)
def addmm(bias: Any, x: Any, y: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return beta bias + alpha x @ y."""
    made = matmul(x, y) if is_link(x) or is_link(y) else x @ y
    if alpha != 1:
        made = mul(made, alpha)
    if beta == 0:
        return made
    return add(made, bias if beta == 1 else mul(bias, beta))


@rule(aten.addbmm.default)
def addbmm(bias: Any, x: Any, y: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return beta bias + alpha times the sum of x @ y over the batch."""
    form = form_of(x, y)
    if not is_link(x) and not is_link(y):
        return addmm(bias, torch.eye(x.shape[1], dtype=x.dtype), torch.bmm(x, y).sum(0), beta, alpha)
    made = form.link(values.total(product("matmul", x, y, form), [0]))
    made = made if alpha == 1 else mul(made, alpha)
    return made if beta == 0 else add(made, bias if beta == 1 else mul(bias, beta))


@rule(aten.addr.default)
def addr(bias: Any, x: Any, y: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return beta bias + alpha x y^T, of vectors."""
    form = form_of(x, y)
    made: Any = mul(_column(x, form), y)
    return add(made if alpha == 1 else mul(made, alpha), bias if beta == 1 else mul(bias, beta))


def _column(x: Any, form: Form) -> Any:
    return form.link(values.reshape(whole(x, form), [x.shape[0], 1])) if is_link(x) else x.unsqueeze(1)


@rule(aten.convolution.default, in_place=False)
def convolution(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any,
    groups: int,
) -> Any:  # fmt: skip
    """Convolve, with any stride, padding, dilation and groups, with or without a bias."""
    form = form_of(x, weight, bias)
    count = len(x.shape) - 2
    stride, padding, dilation = _each(count, stride, padding, dilation)
    options: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if transposed:
        options |= {"transposed": True, "output_padding": _each(count, output_padding)[0]}
    made = product("conv", x, weight, form, **options)
    if bias is not None:
        made = values.add(made, _per_channel(whole(bias, form), count))
    return form.link(made)


def _each(count: int, *options: Any) -> list[tuple[int, ...]]:
    """Return options for every dimension of the images: torch names some once for all."""
    return [tuple(option) * count if len(option) == 1 else tuple(option) for option in options]


def _per_channel(value: Value, spatial: int) -> Value:
    return values.reshape(value, [*values.shape_of(value), *[1] * spatial])


def _transposed(x: Any, form: Form) -> Any:
    """Swap the first two dimensions of an operand."""
    if not is_link(x):
        return x.transpose(0, 1)
    return form.link(values.local(aten.transpose.int, whole(x, form), 0, 1))


@rule(aten.convolution_backward.default, in_place=False)
def convolution_backward(
    grad: Any, x: Any, weight: Any, bias_sizes: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int, wanted: Any,
) -> Any:  # fmt: skip
    """Gradients of a convolution for input, weight and bias."""
    if transposed:
        raise UnsupportedOperation("The gradient of a transposed convolution", "encrypted tensors")
    form = form_of(grad, x, weight)
    spatial = len(x.shape) - 2
    stride, padding, dilation = _each(spatial, stride, padding, dilation)
    grads: list[Any] = [None, None, None]
    if wanted[0]:
        grads[0] = _grad_of_input(grad, x, weight, form, stride, padding, dilation, groups)
    if wanted[1]:
        grads[1] = _grad_of_weight(grad, x, weight, form, stride, padding, dilation, groups)
    if wanted[2]:
        dims = [0, *range(2, 2 + spatial)]
        grads[2] = form.link(values.total(whole(grad, form), dims))
    return tuple(grads)


def _grad_of_input(
    grad: Any, x: Any, weight: Any, form: Form, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """Spread the gradient back with the same weights."""
    images, gradients, windows = x.shape[2:], grad.shape[2:], weight.shape[2:]
    sizes = [
        images[i] - (gradients[i] - 1) * stride[i] + 2 * padding[i] - dilation[i] * (windows[i] - 1) - 1
        for i in range(len(stride))
    ]
    made = product(
        "conv", grad, weight, form, stride=tuple(stride), padding=tuple(padding), dilation=tuple(dilation),
        groups=groups, transposed=True, output_padding=tuple(sizes),
    )  # fmt: skip
    return form.link(made)


def _grad_of_weight(
    grad: Any, x: Any, weight: Any, form: Form, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """Convolve the input with the gradient: batch and channels change places, stride and dilation too."""
    if groups != 1:
        raise UnsupportedOperation("The gradient of a grouped convolution for its weights", "encrypted tensors")
    made = product(
        "conv", _transposed(x, form), _transposed(grad, form), form, stride=tuple(dilation), padding=tuple(padding),
        dilation=tuple(stride),
    )  # fmt: skip
    for i in range(len(stride)):  # where the stride leaves a rest of the input unused
        made = values.local(aten.slice.Tensor, made, i + 2, 0, weight.shape[i + 2])
    return _transposed(form.link(made), form)
