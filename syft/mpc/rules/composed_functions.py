"""Functions that torch composes of infinities, which fixed precision cannot represent, composed differently."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from syft.hook.composed import composed
from syft.mpc.rules.operands import with_finite_mask

_Tensor: Any = torch.Tensor


@composed(torch.logaddexp, _Tensor.logaddexp)
def logaddexp(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return log(e^x + e^y) as y + softplus(x - y), also for a public minus infinity."""
    input, other = (with_finite_mask(x) if type(x) is torch.Tensor else x for x in (input, other))
    return other + F.softplus(input - other)


@composed(torch.nan_to_num, _Tensor.nan_to_num)
def nan_to_num(
    input: torch.Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> torch.Tensor:
    """Return a copy: encoded numbers are never NaN or infinite."""
    return input.clone()


@composed(torch.nan_to_num_, _Tensor.nan_to_num_)
def nan_to_num_in_place(
    input: torch.Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> torch.Tensor:
    """Return the tensor unchanged."""
    return input
