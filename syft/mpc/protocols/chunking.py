"""Work on many elements piece by piece, where each of them takes a lot of memory for a while."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import torch

# How many numbers are held at once for one value of each element.
ROOM = 1 << 21


async def in_blocks(
    step: Callable[..., Awaitable[torch.Tensor]], weight: int, first: torch.Tensor, *others: torch.Tensor
) -> torch.Tensor:
    """Run a step on blocks of the elements of tensors of one shape, and put the results together.

    Args:
        step: takes a block of each tensor, in one dimension, and gives as many elements.
        weight: how many numbers the step holds at once for one element.
        first: a tensor.
        *others: more tensors, of the same shape.
    """
    if first.numel() == 0:
        return torch.zeros(first.shape, dtype=torch.int64)
    size = max(ROOM // weight, 64)
    pieces = zip(*[torch.split(tensor.reshape(-1), size) for tensor in (first, *others)], strict=True)
    made = [await step(*piece) for piece in pieces]
    return (made[0] if len(made) == 1 else torch.cat(made)).view(first.shape)
