"""Poisson sampling with the cryptographic generator.

Sampling amplifies privacy only if the sample is secret, so torch's generator, which a seed
repeats, is never used for it.
"""

from __future__ import annotations

import torch

from syft.core.generator import Generator, local

_MASK = 2**63 - 1
# Number of words drawn at once, as a data set may be large.
_PIECE = 1 << 20


def poisson(count: int, rate: float, generator: Generator | None = None) -> torch.Tensor:
    """Return the drawn indices below `count`, ascending: each drawn independently with the same probability.

    Args:
        count: the number of elements.
        rate: the probability, from 0 to 1; rounded down to a multiple of 2^-63.
        generator: the source of random words; that of this thread by default.

    Returns:
        The indices, as a tensor of int64. It may be empty.
    """
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"A sampling rate must be from 0 to 1, got {rate}.")
    if rate == 1.0:
        return torch.arange(count)
    source = local() if generator is None else generator
    below = int(rate * 2**63)
    found = []
    for start in range(0, count, _PIECE):
        words = source.words(min(_PIECE, count - start)) & _MASK
        found.append((words < below).nonzero().reshape(-1) + start)
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.int64)
