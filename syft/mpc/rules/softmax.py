"""Rules for softmax, its logarithm, and the logarithm of a sum of exponentials."""

from __future__ import annotations

import torch

from syft.mpc.rules.approximations import encoded, exp_of_negative, on_plain
from syft.mpc.rules.arithmetic import mul, sub
from syft.mpc.rules.operands import aten, content, is_link, rule
from syft.mpc.rules.reduction import check_dtype, dims_of, total
from syft.mpc.rules.types import AnyTensor, Dims, Link
from syft.mpc.values import ring_ops


def _softmax(x: Link, dim: int, log: bool) -> Link:
    fmt, (dim,) = encoded(x, "softmax"), dims_of(x, dim) or [0]
    value = content(x)
    if ring_ops.is_shared(value):
        return fmt.link(ring_ops.run("softmax", value, dim=dim, scale=fmt.scale, log=log))
    call = torch.log_softmax if log else torch.softmax
    return fmt.link(on_plain(lambda v: call(v, dim), value, fmt))


@rule(aten._softmax.default, in_place=False)
def softmax(x: Link, dim: int, half_to_float: bool = False) -> Link:
    """Softmax along a dimension."""
    return _softmax(x, dim, False)


@rule(aten._safe_softmax.default, in_place=False)
def safe_softmax(x: Link, dim: int, dtype: torch.dtype | None = None) -> Link:
    """Softmax along a dimension, as attention calls it."""
    check_dtype(x, dtype)
    return _softmax(x, dim, False)


@rule(aten._log_softmax.default, in_place=False)
def log_softmax(x: Link, dim: int, half_to_float: bool = False) -> Link:
    """Logarithm of softmax along a dimension."""
    return _softmax(x, dim, True)


@rule(aten._softmax_backward_data.default, in_place=False)
def softmax_backward(grad: AnyTensor, result: AnyTensor, dim: int, dtype: torch.dtype | None = None) -> Link:
    """Gradient of softmax, from its result."""
    weighed = mul(grad, result)
    return sub(weighed, mul(result, total(weighed, [dim], True)))


@rule(aten._log_softmax_backward_data.default, in_place=False)
def log_softmax_backward(grad: AnyTensor, result: AnyTensor, dim: int, dtype: torch.dtype | None = None) -> Link:
    """Gradient of the logarithm of softmax, from its result."""
    if not len(grad.shape) or grad.shape[dim] == 1:  # the gradient is 0 for every input
        return mul(grad, 0) if is_link(grad) else mul(result, 0)
    softmaxed = exp_of_negative(result) if is_link(result) else result.double().exp()
    summed = total(grad, [dim], True) if is_link(grad) else grad.sum(dim, keepdim=True)
    return sub(grad, mul(softmaxed, summed))


@rule(aten.logsumexp.default, in_place=False)
def logsumexp(x: Link, dim: Dims, keepdim: bool = False) -> Link:
    """log(sum(e^x)) along dimensions: max(x) + log(sum(e^(x - max(x))))."""
    fmt, dims = encoded(x, "logsumexp"), dims_of(x, dim)
    value = content(x)
    if not ring_ops.is_shared(value):
        return fmt.link(on_plain(lambda v: torch.logsumexp(v, dims, keepdim), value, fmt))
    kept = [size for at, size in enumerate(x.shape) if at not in dims]
    if all(x.shape[one] == 1 for one in dims):  # the logarithm of one exponential
        return fmt.link(ring_ops.scale(ring_ops.reshape(value, x.shape if keepdim else kept), 1))
    largest: ring_ops.Value = value
    for one in dims:
        largest = ring_ops.extreme(largest, one, True)
    inner = 1 << 20
    raised = ring_ops.run("exp", ring_ops.sub(value, largest), scale=fmt.scale, out=inner, negative=True)
    summed = ring_ops.run("root", ring_ops.total(raised, dims, True), kind="log", scale=inner, out=fmt.scale)
    made = ring_ops.add(largest, summed)
    return fmt.link(made if keepdim else ring_ops.reshape(made, kept))
