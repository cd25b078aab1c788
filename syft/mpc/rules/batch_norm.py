"""Rules for batch norm, and so for instance norm: statistics of the batch, or running ones, private or public.

The inverse standard deviation of private running statistics is cached with them until they change, so that the next
prediction does not compute it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from syft.exceptions import SyftError
from syft.mpc.rules.arithmetic import add, mul, sub
from syft.mpc.rules.cached_comparisons import note, recall
from syft.mpc.rules.normalization import (
    WHITENED,
    Whitened,
    affine,
    as_link,
    batch_dims,
    fine_format,
    grad_of_weight,
    inverse_root,
    per_channel,
    pulled_back,
    remembered,
    squares_scale,
    summed_up,
    times_factor,
    whiten,
)
from syft.mpc.rules.operands import (
    FixedPointFormat,
    aten,
    content,
    format_of,
    is_link,
    reshaped,
    rule,
    to_integers,
    write,
)
from syft.mpc.rules.public_scaling import times
from syft.mpc.rules.types import AnyTensor, Link
from syft.mpc.values import ring_ops


def _check_running(*running: AnyTensor | None) -> None:
    """Raise, before computing, if private statistics would have to be written to plain tensors."""
    if any(one is not None and not is_link(one) for one in running):
        raise SyftError(
            "Batch norm in training: the statistics of encrypted data are private, but the running ones of this module "
            "are plain tensors. Encrypt the module: module.fix_precision().share(...) encrypts its buffers too."
        )


def _update(running_mean: AnyTensor, running_var: AnyTensor, found: Whitened, momentum: float) -> None:
    """Update running mean and variance from the statistics of a batch, in the same rounds."""
    fmt = format_of(running_mean, running_var, found.mean)
    count = running_mean.shape.numel()
    batch = [
        to_integers(one, fmt)
        for one in (reshaped(found.mean, [count]), reshaped(found.variance(format_of(found.mean)), [count]))
    ]
    running = [to_integers(one, fmt) for one in (running_mean, running_var)]
    before, after = (ring_ops.local(aten.cat.default, ring_ops.together(both)) for both in (running, batch))
    moved = ring_ops.add(before, times(ring_ops.sub(after, before), momentum, fmt))
    for at, target in enumerate((running_mean, running_var)):
        write(target, fmt.link(ring_ops.local(aten.slice.Tensor, moved, 0, at * count, (at + 1) * count)), "batch_norm")


@rule(aten.native_batch_norm.default, aten._native_batch_norm_legit.default, in_place=False)
def batch_norm(
    x: AnyTensor, weight: AnyTensor | None, bias: AnyTensor | None, running_mean: AnyTensor | None,
    running_var: AnyTensor | None, training: bool, momentum: float, eps: float,
) -> tuple[AnyTensor, ...]:  # fmt: skip
    """Normalise each channel: with the statistics of the batch in training, else with the running ones."""
    dims, x = len(x.shape), as_link(x, weight, bias, running_mean, running_var)
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError("batch_norm needs running_mean and running_var unless training=True")
        return _with_running(x, weight, bias, running_mean, running_var, eps)
    _check_running(running_mean, running_var)
    whitened = whiten(x, batch_dims(x), eps)
    if running_mean is not None and running_var is not None:
        _update(running_mean, running_var, whitened, momentum)
    made = affine(whitened.made, per_channel(weight, dims), per_channel(bias, dims))
    return made, *remembered(whitened, [-1])


@rule(aten._native_batch_norm_legit.no_stats, in_place=False)
def batch_norm_without_statistics(
    x: AnyTensor, weight: AnyTensor | None, bias: AnyTensor | None, training: bool, momentum: float, eps: float
) -> tuple[AnyTensor, ...]:
    """Normalise each channel by the statistics of the batch."""
    return batch_norm(x, weight, bias, None, None, True, momentum, eps)


@rule(aten._native_batch_norm_legit_no_training.default, in_place=False)
def batch_norm_in_eval(
    x: AnyTensor, weight: AnyTensor | None, bias: AnyTensor | None, running_mean: AnyTensor, running_var: AnyTensor,
    momentum: float, eps: float,
) -> tuple[AnyTensor, ...]:  # fmt: skip
    """Normalise each channel by the running statistics."""
    return batch_norm(x, weight, bias, running_mean, running_var, False, momentum, eps)


def _running_factor(running_var: AnyTensor, eps: float, fmt: FixedPointFormat) -> AnyTensor:
    """Return 1 / sqrt(running variance + eps); a private one is cached with the variance until that changes."""
    if not is_link(running_var):
        return (running_var.double() + eps).rsqrt()
    cached: Link | None = recall(running_var, "rsqrt", eps)
    if cached is None:
        own = format_of(running_var)
        scale, divisor = squares_scale(own)
        value = ring_ops.scale(content(running_var), own.scale // divisor)
        cached = inverse_root(value, scale, eps, fine_format(fmt))
        note(running_var, "rsqrt", cached, eps)
    return cached


def _weighted(factor: AnyTensor, weight: AnyTensor | None, running_var: AnyTensor) -> AnyTensor:
    """Return the factor times the weight; cached for private ones until they change."""
    if weight is None:
        return factor
    if not is_link(factor) and not is_link(weight):
        return weight.double() * factor
    holder = next(one for one in (running_var, weight) if is_link(one))
    other = weight if holder is running_var else running_var
    cached: Link | None = recall(holder, "weighted", other)
    if cached is None:
        cached = mul(weight, factor) if is_link(factor) else mul(_in_fine(weight), factor)
        note(holder, "weighted", cached, other)
    return cached


def _in_fine(weight: AnyTensor) -> Link:
    fine = fine_format(format_of(weight))
    return fine.link(to_integers(weight, fine))


def _with_running(
    x: AnyTensor, weight: AnyTensor | None, bias: AnyTensor | None, running_mean: AnyTensor, running_var: AnyTensor,
    eps: float,
) -> tuple[Link, torch.Tensor, torch.Tensor]:  # fmt: skip
    dims = len(x.shape)
    factor = _weighted(_running_factor(running_var, eps, format_of(x, running_var)), weight, running_var)
    made = times_factor(sub(x, per_channel(running_mean, dims)), per_channel(factor, dims))
    nothing = torch.zeros(0)
    return made if bias is None else add(made, per_channel(bias, dims)), nothing, nothing


@rule(aten.native_batch_norm_backward.default, in_place=False)
def batch_norm_backward(
    grad: AnyTensor, x: AnyTensor, weight: AnyTensor | None, running_mean: AnyTensor, running_var: AnyTensor,
    mean: AnyTensor, factor: AnyTensor, train: bool, eps: float, wanted: Sequence[bool],
) -> tuple[Link | None, ...]:  # fmt: skip
    """Gradients of batch norm for input, weight and bias."""
    dims, over = len(x.shape), batch_dims(x)
    grads: list[Any] = [None, None, summed_up(grad, over) if wanted[2] else None]
    if not train:
        plain = _running_factor(running_var, eps, format_of(grad, x, running_var))
        if wanted[0]:
            grads[0] = times_factor(grad, per_channel(_weighted(plain, weight, running_var), dims))
        if wanted[1]:
            x = as_link(x, grad, running_mean, running_var)
            made = times_factor(sub(x, per_channel(running_mean, dims)), per_channel(plain, dims))
            grads[1] = grad_of_weight(grad, made, over)
        return tuple(grads)
    made = recall(factor, WHITENED)
    if made is None:
        made = times_factor(sub(x, per_channel(mean, dims)), per_channel(factor, dims))
    rest, summed = pulled_back(grad, made, over)
    if wanted[0]:
        scaled = factor if weight is None else mul(factor, weight)
        grads[0] = times_factor(rest, per_channel(scaled, dims))
    if wanted[1]:
        grads[1] = reshaped(summed, [-1])
    return tuple(grads)


@rule(aten._native_batch_norm_legit_functional.default, in_place=False)
def batch_norm_of_copies(
    x: AnyTensor, weight: AnyTensor | None, bias: AnyTensor | None, running_mean: AnyTensor | None,
    running_var: AnyTensor | None, training: bool, momentum: float, eps: float,
) -> tuple[AnyTensor | None, ...]:  # fmt: skip
    """Normalise each channel, and return new running statistics instead of writing them."""
    mean, var = (format_of(one).link(content(one)) if is_link(one) else one for one in (running_mean, running_var))
    return *batch_norm(x, weight, bias, mean, var, training, momentum, eps), mean, var
