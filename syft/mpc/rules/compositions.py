"""Functions, norms and losses that torch composes in ways that lose digits, look at values or need infinities.

They are composed differently here, of calls that have rules and gradients.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn import _reduction

from syft.core.tensor import AbstractTensor, below
from syft.exceptions import UnsupportedOperationError
from syft.hook.composed import composed
from syft.mpc.ring import arithmetic
from syft.mpc.rules.operands import is_link, with_finite_mask
from syft.mpc.rules.training import FACTOR_BITS
from syft.mpc.rules.types import Dims, Number, Sizes
from syft.tensors.precision import FixedPrecisionTensor

# An eps of a length up to here is below the resolution of all formats.
TINY = 1e-6
_Tensor: Any = torch.Tensor


def _is_private(tensor: torch.Tensor) -> bool:
    return is_link(below(tensor))


@composed(_Tensor.data.__set__)
def set_data(x: torch.Tensor, value: torch.Tensor) -> None:
    """Write the values of `x.data = value`, in the format of x; torch itself would only exchange empty memory."""
    if tuple(value.shape) != tuple(x.shape):
        raise UnsupportedOperationError(
            f"Setting .data of shape {tuple(value.shape)} on shape {tuple(x.shape)}",
            "encrypted tensors",
            "Assign a new tensor instead.",
        )
    with torch.no_grad():
        x.detach().copy_(value)


@composed(torch.clone)
def clone(input: Any, *, memory_format: torch.memory_format | None = None) -> Any:
    """Return a copy with the same ids, as the method does."""
    return input.clone()


@composed(torch.logaddexp, _Tensor.logaddexp)
def logaddexp(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return log(e^x + e^y) as y + softplus(x - y), also for a public minus infinity."""
    input, other = (with_finite_mask(x) if type(x) is torch.Tensor else x for x in (input, other))
    return other + F.softplus(input - other)


@composed(torch.nan_to_num, _Tensor.nan_to_num)
def nan_to_num(input: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
    """Return a copy: encoded numbers are never NaN or infinite."""
    return input.clone()


@composed(torch.nan_to_num_, _Tensor.nan_to_num_)
def nan_to_num_in_place(input: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
    """Return the tensor unchanged."""
    return input


@composed(torch.Tensor.__rdiv__, torch.Tensor.__rtruediv__)
def number_over(x: torch.Tensor, number: Number) -> torch.Tensor:
    """Divide a public number by a tensor: torch multiplies by 1 / x, which does not fit in the finest formats."""
    link = below(x)
    if isinstance(link, FixedPrecisionTensor) and link.scale > 1 << FACTOR_BITS + 10:
        return torch.div(torch.tensor(float(number)), x)
    return x.reciprocal() * number


@composed(F.rrelu, torch.rrelu)
def rrelu(
    input: torch.Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> torch.Tensor:
    """Return leaky relu with the mean slope, as rrelu does in eval mode."""
    if training:
        raise UnsupportedOperationError("rrelu in training", "encrypted tensors", "Use leaky_relu, or eval mode.")
    return F.leaky_relu(input, (lower + upper) / 2, inplace)


# --- norms ----------------------------------------------------------------------------------------------------------


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


# --- losses ---------------------------------------------------------------------------------------------------------


def _reduced(
    losses: torch.Tensor, reduction: str = "mean", size_average: bool | None = None, reduce: bool | None = None
) -> torch.Tensor:
    if size_average is not None or reduce is not None:
        reduction = _reduction.legacy_get_string(size_average, reduce)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()


class _Huber(torch.autograd.Function):
    """Product of e, the distance within delta, and distance - e / 2.

    Its derivative is e itself: at any distance either e is the distance, or e does not depend on it. So the backward
    pass needs no comparison, and e, with its own history, gives the second derivative.
    """

    @staticmethod
    def forward(ctx: Any, distance: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
        """Return the loss of each element."""
        ctx.save_for_backward(near)
        return near * (distance - near * 0.5)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Return the gradient of the distance."""
        return gradients[0] * ctx.saved_tensors[0], None


def _huber(input: torch.Tensor, target: torch.Tensor, delta: float, divisor: float = 1) -> torch.Tensor:
    """Return e (distance - e / 2) / divisor, with e the distance within delta."""
    distance = input - target
    losses: torch.Tensor = _Huber.apply(distance, distance.clamp(-delta, delta))  # type: ignore[no-untyped-call]
    return losses if divisor == 1 else losses / divisor


@composed(F.huber_loss)
def huber_loss(
    input: torch.Tensor, target: torch.Tensor, delta: float = 1.0, weight: torch.Tensor | None = None, **options: Any
) -> torch.Tensor:
    """Half the squared distance up to delta, linear beyond."""
    losses = _huber(input, target, delta)
    return _reduced(losses if weight is None else losses * weight, **options)


@composed(F.smooth_l1_loss)
def smooth_l1_loss(input: torch.Tensor, target: torch.Tensor, beta: float = 1.0, **options: Any) -> torch.Tensor:
    """Huber loss divided by beta."""
    return _reduced(_huber(input, target, beta, beta) if beta else (input - target).abs(), **options)


@composed(F.binary_cross_entropy_with_logits)
def binary_cross_entropy_with_logits(
    input: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None,
    pos_weight: torch.Tensor | None = None, **options: Any,
) -> torch.Tensor:  # fmt: skip
    """Return (1 - t) x + (1 + (pos_weight - 1) t) log(1 + e^-x)."""
    if target.shape != input.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    logs = F.softplus(-input)
    logs = logs if pos_weight is None else logs * ((pos_weight - 1) * target + 1)
    losses = (1 - target) * input + logs
    return _reduced(losses if weight is None else losses * weight, **options)


@composed(F.soft_margin_loss)
def soft_margin_loss(input: torch.Tensor, target: torch.Tensor, **options: Any) -> torch.Tensor:
    """Return log(1 + e^(-t x))."""
    return _reduced(-F.logsigmoid(input * target), **options)


@composed(F.multi_margin_loss)
def multi_margin_loss(
    input: torch.Tensor, target: torch.Tensor, p: int = 1, margin: float = 1.0, weight: torch.Tensor | None = None,
    **options: Any,
) -> torch.Tensor:  # fmt: skip
    """Mean over the other classes of relu(margin - x[target] + x) ^ p."""
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    rows = input if input.dim() == 2 else input.reshape(1, -1)
    classes = target.reshape(-1, 1)
    if len(classes) != len(rows):
        raise ValueError(f"Targets of shape {tuple(target.shape)} do not match inputs of shape {tuple(input.shape)}.")
    above = (rows - rows.gather(1, classes) + margin).relu()
    # The target class itself adds max(margin, 0) ^ p, and nothing to the gradient.
    losses = ((above if p == 1 else above * above).sum(1) - max(margin, 0) ** p) / rows.shape[1]
    if weight is not None:
        # Private classes select from weights in the format of the inputs.
        each = weight if _is_private(weight) or not _is_private(target) else rows.detach() * 0 + weight
        losses = losses * each.expand(rows.shape).gather(1, classes).squeeze(1)
    return _reduced(losses if input.dim() == 2 else losses.reshape(()), **options)


@composed(F.cosine_embedding_loss)
def cosine_embedding_loss(
    input1: torch.Tensor, input2: torch.Tensor, target: torch.Tensor, margin: float = 0, **options: Any
) -> torch.Tensor:
    """Return 1 - cosine for similar pairs (target 1), and relu(cosine - margin) for others (-1).

    torch divides by the root of a product of squares, whose gradient needs more digits than the vectors have.
    """
    cosine = F.cosine_similarity(input1, input2, dim=-1)
    apart = torch.where(target == -1, (cosine - margin).clamp_min(0), torch.zeros(cosine.shape))
    return _reduced(torch.where(target == 1, 1 - cosine, apart), **options)


@composed(F.gaussian_nll_loss)
def gaussian_nll_loss(
    input: torch.Tensor, target: torch.Tensor, var: torch.Tensor | float, full: bool = False, eps: float = 1e-6,
    **options: Any,
) -> torch.Tensor:  # fmt: skip
    """Return (log(var) + (x - t)^2 / var) / 2; private variances are not checked, and are clamped to one unit."""
    link = below(var)
    if not isinstance(var, torch.Tensor):
        var = torch.full(tuple(input.shape), float(var))
    if not isinstance(link, AbstractTensor) and bool((var < 0).any()):
        raise ValueError("var has negative entry/entries")
    if len(var.shape) == len(input.shape) - 1:
        var = var.unsqueeze(-1)
    if isinstance(link, FixedPrecisionTensor):
        eps = max(eps, 1 / link.scale)
    var = var + (var.clamp(min=eps) - var).detach()
    losses = (var.log() + (input - target).square() / var) / 2
    return _reduced(losses + math.log(2 * math.pi) / 2 if full else losses, **options)
