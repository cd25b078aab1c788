"""Rules for layer norm, group norm and batch norm (and so instance norm); weights and statistics public or private.

A distance from the mean is divided by the standard deviation before it is multiplied by the weight, so that
intermediate values stay small. Variances have twice the digits, and 1 / sqrt(variance) has 22 bits: they are few
numbers, and their errors affect every element. The inverse standard deviation of private running statistics is cached
with them until they change, so that the next prediction does not compute it again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, overload

import torch

from syft.core.autograd_state import is_followed
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.mpc.protocols.exponential import MAX_SCALE
from syft.mpc.rules.arithmetic import add, mul, sub
from syft.mpc.rules.cached_comparisons import note, recall
from syft.mpc.rules.gradients import with_digits
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
from syft.mpc.rules.reduction import count_of
from syft.mpc.rules.types import AnyTensor, Link, Sizes, Value
from syft.mpc.values import ring_ops
from syft.mpc.values.encoding import encode_plain

# Sums of products fit below this.
MAX_SUM = 1 << 54
# The maximum of units per one of a factor.
FACTOR = 1 << 22
WHITENED = "whitened"


@dataclasses.dataclass(slots=True)
class Whitened:
    """Numbers with mean 0 and variance 1 along some dimensions.

    Attributes:
        made: the numbers.
        mean: the mean that was subtracted.
        factor: the factor 1 / sqrt(variance), with more digits.
        squares: the sum of squared distances from the mean, as integers.
        scale: the scale of `squares`.
        count: the number of elements per mean.
    """

    made: Link
    mean: Link
    factor: Link
    squares: Value
    scale: int
    count: int

    def variance(self, fmt: FixedPointFormat) -> Link:
        """Return the unbiased variance in a format."""
        return fmt.link(ring_ops.truncate(self.squares, max(self.count - 1, 1) * self.scale // fmt.scale))


def fine_format(fmt: FixedPointFormat) -> FixedPointFormat:
    """Return the format of factors, which has more digits."""
    model, digits = fmt.model, 0
    if model is None:
        raise UnsupportedOperationError("Normalisation", "AdditiveSharingTensor", "Encode before sharing.")
    while model.base ** (digits + 1) <= FACTOR:
        digits += 1
    return with_digits(model, max(digits, model.precision_fractional))


def as_link(x: AnyTensor, *others: AnyTensor | None) -> Link:
    """Return an operand as a link: data may be public when the model is private."""
    fmt = format_of(x, *others)
    return x if is_link(x) else fmt.link(to_integers(x, fmt))


def inverse_root(value: Value, scale: int, epsilon: float, fine: FixedPointFormat) -> Link:
    """Return 1 / sqrt(variance + epsilon) of variances as integers with a scale."""
    moved = ring_ops.add(value, max(round(epsilon * scale), 1) if epsilon > 0 else round(epsilon * scale))
    if ring_ops.is_shared(moved):
        return fine.link(ring_ops.run("root", moved, kind="rsqrt", scale=scale, out=fine.scale))
    found = (value.double() / scale + epsilon).rsqrt()
    return fine.link(encode_plain(found.nan_to_num(0.0, 0.0, 0.0), fine.scale, fine.field))


def squares_scale(fmt: FixedPointFormat) -> tuple[int, int]:
    """Return the scale of variances, and the divisor of squares that gives it."""
    divisor = 1
    while fmt.scale**2 // divisor > MAX_SCALE:
        divisor *= fmt.base
    return fmt.scale**2 // divisor, divisor


def whiten(x: Link, dims: list[int], epsilon: float) -> Whitened:
    """Subtract the mean along dimensions, and divide by the standard deviation."""
    fmt, count = format_of(x), count_of(x, dims)
    fine, value = fine_format(fmt), content(x)
    mean = ring_ops.truncate(ring_ops.total(value, dims, True), count)
    distance = ring_ops.sub(value, mean)
    scale, divisor = squares_scale(fmt)
    squares = ring_ops.total(ring_ops.mul(distance, distance, divisor), dims, True)
    if scale * count <= MAX_SCALE:  # a sum is a mean with another scale
        factor = inverse_root(squares, scale * count, epsilon, fine)
    else:
        factor = inverse_root(ring_ops.truncate(squares, count), scale, epsilon, fine)
    made = fmt.link(ring_ops.mul(distance, content(factor), fine.scale))
    return Whitened(made, fmt.link(mean), factor, squares, scale, count)


@overload
def per_channel(value: None, dims: int) -> None: ...
@overload
def per_channel(value: AnyTensor, dims: int) -> AnyTensor: ...
def per_channel(value: AnyTensor | None, dims: int) -> AnyTensor | None:
    """Return one number for each channel in a shape that broadcasts to images."""
    return None if value is None else reshaped(value, [1, -1, *[1] * (dims - 2)])


def affine(made: Link, weight: AnyTensor | None, bias: AnyTensor | None) -> Link:
    """Multiply by the weight and add the bias, if there are any."""
    made = made if weight is None else mul(made, weight)
    return made if bias is None else add(made, bias)


def remembered(whitened: Whitened, shape: list[int]) -> tuple[Link, Link]:
    """Return mean and factor as torch saves them for the gradient; the whitened numbers are cached with the factor."""
    mean, factor = reshaped(whitened.mean, shape), reshaped(whitened.factor, shape)
    return mean, note(factor, WHITENED, whitened.made) if is_followed() else factor


def batch_dims(x: AnyTensor) -> list[int]:
    """Return all dimensions except that of channels."""
    return [0, *range(2, len(x.shape))]


def times_factor(x: AnyTensor, factor: AnyTensor) -> Link:
    """Multiply by a factor that may have more digits; the result has the format of x."""
    if not is_link(factor):
        return mul(x, factor)
    fmt, own = format_of(x), format_of(factor)
    return fmt.link(ring_ops.mul(to_integers(x, fmt), content(factor), own.scale))


# --- gradients ------------------------------------------------------------------------------------------------------


def _products(grad: AnyTensor, made: Link, count: int) -> tuple[Value, int, FixedPointFormat]:
    """Multiply gradients by the whitened numbers; returns products, the excess of their scale, and their format."""
    fmt, extra = format_of(grad), format_of(made).scale
    divisor = extra if fmt.scale * extra * count > MAX_SUM else 1
    return ring_ops.mul(to_integers(grad, fmt), content(made), divisor), extra // divisor, fmt


def pulled_back(grad: AnyTensor, made: Link, dims: list[int]) -> tuple[Any, Any]:
    """Return g - mean(g) - made mean(g made), and the sum of g made, along dimensions."""
    count = count_of(made, dims)
    products, extra, fmt = _products(grad, made, count)
    summed = ring_ops.total(products, dims, True)
    given, whitened, scale = to_integers(grad, fmt), content(made), format_of(made).scale
    along = ring_ops.mul(whitened, ring_ops.truncate(summed, count * extra))
    given = ring_ops.sub(given, ring_ops.truncate(ring_ops.total(given, dims, True), count))
    rest = ring_ops.sub(ring_ops.scale(given, scale), along)
    return fmt.link(ring_ops.truncate(rest, scale)), fmt.link(ring_ops.truncate(summed, extra))


def summed_up(grad: AnyTensor, dims: list[int]) -> Link:
    """Sum gradients along dimensions."""
    fmt = format_of(grad)
    return fmt.link(ring_ops.total(to_integers(grad, fmt), dims) if dims else to_integers(grad, fmt))


def grad_of_weight(grad: AnyTensor, made: Link, dims: list[int]) -> Link:
    """Sum gradients times the whitened numbers along dimensions."""
    products, extra, fmt = _products(grad, made, count_of(made, dims))
    return fmt.link(ring_ops.truncate(ring_ops.total(products, dims) if dims else products, extra))


# --- layers and groups ----------------------------------------------------------------------------------------------


@rule(aten.native_layer_norm.default, in_place=False)
def layer_norm(
    x: AnyTensor, shape: Sizes, weight: AnyTensor | None, bias: AnyTensor | None, eps: float
) -> tuple[Link, ...]:
    """Normalise along the last dimensions."""
    x = as_link(x, weight, bias)
    dims = list(range(len(x.shape) - len(shape), len(x.shape)))
    whitened = whiten(x, dims, eps)
    return affine(whitened.made, weight, bias), *remembered(whitened, list(whitened.mean.shape))


def _gradients(
    grad: AnyTensor, made: Link, factor: AnyTensor, weight: AnyTensor | None, dims: list[int], over: list[int],
    wanted: Sequence[bool],
) -> tuple[Link | None, ...]:  # fmt: skip
    """Return gradients for input, weight and bias; `made` may have another shape, with `dims` normalised."""
    grads: list[Any] = [None, None, summed_up(grad, over) if wanted[2] else None]
    if wanted[0]:
        given = grad if weight is None else mul(grad, weight)
        rest, _ = pulled_back(reshaped(given, list(made.shape)), made, dims)
        grads[0] = reshaped(times_factor(rest, factor), list(grad.shape))
    if wanted[1]:
        grads[1] = grad_of_weight(grad, reshaped(made, list(grad.shape)), over)
    return tuple(grads)


@rule(aten.native_layer_norm_backward.default, in_place=False)
def layer_norm_backward(
    grad: AnyTensor, x: AnyTensor, shape: Sizes, mean: AnyTensor, factor: AnyTensor, weight: AnyTensor | None,
    bias: AnyTensor | None, wanted: Sequence[bool],
) -> tuple[Link | None, ...]:  # fmt: skip
    """Gradients of layer norm for input, weight and bias."""
    before = len(x.shape) - len(shape)
    over, dims = list(range(before)), list(range(before, len(x.shape)))
    made = recall(factor, WHITENED)
    made = times_factor(sub(x, mean), factor) if made is None else made
    return _gradients(grad, made, factor, weight, dims, over, wanted)


@rule(aten.native_group_norm.default, in_place=False)
def group_norm(
    x: AnyTensor, weight: AnyTensor | None, bias: AnyTensor | None, batch: int, channels: int, size: int, groups: int,
    eps: float,
) -> tuple[Link, ...]:  # fmt: skip
    """Normalise each group of channels of each image."""
    shape, dims, x = list(x.shape), len(x.shape), as_link(x, weight, bias)
    whitened = whiten(reshaped(x, [batch, groups, channels // groups * size]), [2], eps)
    made = affine(reshaped(whitened.made, shape), per_channel(weight, dims), per_channel(bias, dims))
    return made, *remembered(whitened, [batch, groups])


@rule(aten.native_group_norm_backward.default, in_place=False)
def group_norm_backward(
    grad: AnyTensor, x: AnyTensor, mean: AnyTensor, factor: AnyTensor, weight: AnyTensor | None, batch: int,
    channels: int, size: int, groups: int, wanted: Sequence[bool],
) -> tuple[Link | None, ...]:  # fmt: skip
    """Gradients of group norm for input, weight and bias."""
    single = [batch, groups, 1]
    factor_of_group, made = reshaped(factor, single), recall(factor, WHITENED)
    if made is None:
        grouped = reshaped(x, [batch, groups, channels // groups * size])
        made = times_factor(sub(grouped, reshaped(mean, single)), factor_of_group)
    return _gradients(grad, made, factor_of_group, per_channel(weight, len(x.shape)), [2], batch_dims(x), wanted)


# --- batches: statistics of the batch, or running ones --------------------------------------------------------------


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


rule(aten._native_batch_norm_legit.no_stats, in_place=False)(
    lambda x, weight, bias, training, momentum, eps: batch_norm(x, weight, bias, None, None, True, momentum, eps)
)
rule(aten._native_batch_norm_legit_no_training.default, in_place=False)(
    lambda x, weight, bias, mean, var, momentum, eps: batch_norm(x, weight, bias, mean, var, False, momentum, eps)
)


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
        fine = fine_format(format_of(weight))
        cached = mul(weight if is_link(factor) else fine.link(to_integers(weight, fine)), factor)
        note(holder, "weighted", cached, other)
    return cached


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
