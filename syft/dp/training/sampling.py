"""Poisson sampling: who takes part is drawn by the cryptographic generator, as nobody else may know it.

What sampling adds to privacy holds only against those who can't tell who was drawn, so torch's generator, which a seed
repeats, is never used for it.
"""

from __future__ import annotations

import torch

from syft.core.generator import Generator, local

_MASK = 2**63 - 1
# How many words are drawn at once: a data set may be large.
_PIECE = 1 << 20


def poisson(count: int, rate: float, generator: Generator | None = None) -> torch.Tensor:
    """Return which of `count` are drawn, in order: each with the same probability, whoever else is.

    Args:
        count: how many there are.
        rate: the probability, from 0 to 1; rounded down to a multiple of 2^-63.
        generator: where the words come from; the one of this thread by default.

    Returns:
        Their numbers, as a tensor of int64. It may be empty.
    """
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"A sampling rate is from 0 to 1, not {rate}.")
    if rate == 1.0:
        return torch.arange(count)
    source = local() if generator is None else generator
    below = int(rate * 2**63)
    found = []
    for start in range(0, count, _PIECE):
        words = source.words(min(_PIECE, count - start)) & _MASK
        found.append((words < below).nonzero().reshape(-1) + start)
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.int64)
