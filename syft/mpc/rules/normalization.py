"""Rules for layer norm and group norm, and helpers for batch norm; weights public or private.

A distance from the mean is divided by the standard deviation before it is multiplied by the weight, so that
intermediate values stay small. Variances have twice the digits, and 1 / sqrt(variance) has 22 bits: they are few
numbers, and their errors affect every element.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, overload

import torch
import torch.nn.functional as F

from syft.core.autograd_state import is_followed
from syft.exceptions import UnsupportedOperationError
from syft.hook.composed import composed
from syft.mpc.protocols.exponential import MAX_SCALE
from syft.mpc.ring import arithmetic
from syft.mpc.rules.arithmetic import add, mul, sub
from syft.mpc.rules.cached_comparisons import note, recall
from syft.mpc.rules.gradients import with_digits
from syft.mpc.rules.operands import FixedPointFormat, aten, content, format_of, is_link, reshaped, rule, to_integers
from syft.mpc.rules.reduction import count_of
from syft.mpc.rules.types import AnyTensor, Dims, Link, Sizes, Value
from syft.mpc.values import ring_ops
from syft.mpc.values.encoding import encode_plain

# Sums of products fit below this.
MAX_SUM = 1 << 54
# The maximum of units per one of a factor.
FACTOR = 1 << 22
WHITENED = "whitened"
# An eps of a length up to here is below the resolution of all formats.
TINY = 1e-6


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
    grads: list[Any] = [None, None, summed_up(grad, over) if wanted[2] else None]
    if wanted[0]:
        rest, _ = pulled_back(grad if weight is None else mul(grad, weight), made, dims)
        grads[0] = times_factor(rest, factor)
    if wanted[1]:
        grads[1] = grad_of_weight(grad, made, over)
    return tuple(grads)


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
    shape, over = list(x.shape), batch_dims(x)
    grouped, single = [batch, groups, channels // groups * size], [batch, groups, 1]
    made = recall(factor, WHITENED)
    if made is None:
        made = times_factor(sub(reshaped(x, grouped), reshaped(mean, single)), reshaped(factor, single))
    grads: list[Any] = [None, None, summed_up(grad, over) if wanted[2] else None]
    if wanted[0]:
        given = grad if weight is None else mul(grad, per_channel(weight, len(shape)))
        rest, _ = pulled_back(reshaped(given, grouped), made, [2])
        grads[0] = reshaped(times_factor(rest, reshaped(factor, single)), shape)
    if wanted[1]:
        grads[1] = grad_of_weight(grad, reshaped(made, shape), over)
    return tuple(grads)


# --- without subtraction of the mean -----------------------------------------------------------------------------


@composed(F.rms_norm, torch.rms_norm)
def rms_norm(
    x: torch.Tensor, normalized_shape: Sizes, weight: torch.Tensor | None = None, eps: float | None = None
) -> torch.Tensor:
    """Divide by the root of the mean square along the last dimensions.

    Numbers together with their negatives have mean 0, and their mean square is their variance, so layer norm computes
    this with all of its digits and with its gradient.
    """
    count = math.prod(normalized_shape)
    flat = x.reshape(*x.shape[: len(x.shape) - len(normalized_shape)], count)
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    made = F.layer_norm(torch.cat([flat, -flat], -1), (2 * count,), eps=eps)[..., :count].reshape(x.shape)
    return made if weight is None else made * weight


@composed(F.normalize)
def normalize(
    x: torch.Tensor, p: float = 2.0, dim: Dims = 1, eps: float = 1e-12, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Divide vectors by max(length, eps).

    Euclidean lengths are root mean squares, up to a factor; a tiny eps is below the resolution of encoded vectors.
    """
    if p == 2 and isinstance(dim, int) and out is None and eps <= TINY:
        turned = x.movedim(dim, -1)
        factor: float = turned.shape[-1] ** -0.5
        return (rms_norm(turned, turned.shape[-1:], None, 0.0) * factor).movedim(-1, dim)
    lengths = torch.linalg.vector_norm(x, p, dim, keepdim=True).clamp_min(eps).expand_as(x)
    return torch.div(x, lengths) if out is None else torch.div(x, lengths, out=out)


@composed(torch._weight_norm)
def weight_norm(v: torch.Tensor, g: torch.Tensor, dim: int = 0) -> torch.Tensor:
    """Scale each row of a weight to a given length, as torch.nn.utils.parametrizations.weight_norm does."""
    rows = v.movedim(dim, 0)
    made = normalize(rows.reshape(rows.shape[0], -1)).reshape(rows.shape).movedim(0, dim)
    return made * g


@composed(F.cosine_similarity, torch.cosine_similarity)
def cosine_similarity(x1: torch.Tensor, x2: torch.Tensor, dim: int = 1, eps: float = 1e-8) -> torch.Tensor:
    """Return the dot product of normalised vectors; both are normalised in the same rounds."""
    shape = arithmetic.broadcast(x1.shape, x2.shape)
    both = torch.stack([x1.expand(shape), x2.expand(shape)])
    first, second = normalize(both, dim=dim + 1 if dim >= 0 else dim, eps=eps).unbind(0)
    return (first * second).sum(dim)
