"""Losses that torch composes in ways that lose digits, or that look at values: the same mathematics in other calls."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch.nn import _reduction

from syft.core.tensor import AbstractTensor
from syft.hook.composed import composed
from syft.tensors.precision import FixedPrecisionTensor


def _reduced(losses: torch.Tensor, reduction: str) -> torch.Tensor:
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()


@composed(F.cosine_embedding_loss)
def cosine_embedding_loss(
    input1: torch.Tensor, input2: torch.Tensor, target: torch.Tensor, margin: float = 0,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> torch.Tensor:  # fmt: skip
    """Return 1 - cosine for similar pairs (target 1), and relu(cosine - margin) for others (-1).

    torch divides by the root of a product of squares, whose gradient needs more digits than the vectors have.
    """
    if size_average is not None or reduce is not None:
        reduction = _reduction.legacy_get_string(size_average, reduce)
    cosine = F.cosine_similarity(input1, input2, dim=-1)
    apart = torch.where(target == -1, (cosine - margin).clamp_min(0), torch.zeros(cosine.shape))
    return _reduced(torch.where(target == 1, 1 - cosine, apart), reduction)


@composed(F.gaussian_nll_loss)
def gaussian_nll_loss(
    input: torch.Tensor, target: torch.Tensor, var: torch.Tensor | float, full: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> torch.Tensor:  # fmt: skip
    """Return (log(var) + (x - t)^2 / var) / 2; private variances are not checked, and are clamped to one unit."""
    link = getattr(var, "child", None)
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
    return _reduced(losses + math.log(2 * math.pi) / 2 if full else losses, reduction)
