"""Chunking: steps that need much temporary memory for each element run on blocks of elements."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import torch

# Numbers that a block may hold at once.
ROOM = 1 << 21


async def in_blocks(
    step: Callable[..., Awaitable[torch.Tensor]], weight: int, first: torch.Tensor, *others: torch.Tensor
) -> torch.Tensor:
    """Run a step on blocks of the elements of tensors of one shape, and join the results.

    Args:
        step: takes a one-dimensional block of each tensor, and returns a tensor of the same size.
        weight: the numbers that the step holds at once for one element.
        first: a tensor.
        *others: more tensors, of the same shape.
    """
    if first.numel() == 0:
        return torch.zeros(first.shape, dtype=torch.int64)
    size = max(ROOM // weight, 64)
    pieces = zip(*[torch.split(tensor.reshape(-1), size) for tensor in (first, *others)], strict=True)
    made = [await step(*piece) for piece in pieces]
    return (made[0] if len(made) == 1 else torch.cat(made)).view(first.shape)
