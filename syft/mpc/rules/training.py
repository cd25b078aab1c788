"""Rules for random operations in training."""

from __future__ import annotations

import torch

from syft.mpc.rules.arithmetic import mul
from syft.mpc.rules.operands import aten, content, format_of, rule
from syft.mpc.rules.public_scaling import times
from syft.mpc.rules.types import AnyTensor, Link
from syft.mpc.values import ring_ops


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


@rule(aten.native_dropout_backward.default, in_place=False)
def native_dropout_backward(grad: AnyTensor, mask: AnyTensor, scale: float) -> Link:
    """Gradient of dropout."""
    return mul(mul(grad, mask), scale)


@rule(aten.bernoulli_.float, in_place=False, views=True)
def bernoulli(x: Link, probability: float = 0.5, generator: torch.Generator | None = None) -> Link:
    """Fill with public random ones and zeros, as a mask of dropout."""
    drawn = torch.bernoulli(torch.full(tuple(x.shape), probability), generator=generator).long()
    fmt = format_of(x)
    x.child = drawn * fmt.scale if fmt.model is not None else ring_ops.public(drawn, content(x)).child
    return x
