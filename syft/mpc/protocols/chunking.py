"""Chunking: steps that need much temporary memory for each element run on blocks of elements."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import torch

# Numbers that a block may hold at once.
ROOM = 1 << 21


async def in_blocks(
    step: Callable[..., Awaitable[torch.Tensor]], weight: int, first: torch.Tensor, *others: torch.Tensor
) -> torch.Tensor:
    """Run a step on one-dimensional blocks of tensors of one shape, and join the results, which have the same size.

    The step holds `weight` numbers at once for one element.
    """
    if first.numel() == 0:
        return torch.zeros(first.shape, dtype=torch.int64)
    size = max(ROOM // weight, 64)
    pieces = zip(*[torch.split(tensor.reshape(-1), size) for tensor in (first, *others)], strict=True)
    made = [await step(*piece) for piece in pieces]
    return (made[0] if len(made) == 1 else torch.cat(made)).view(first.shape)
