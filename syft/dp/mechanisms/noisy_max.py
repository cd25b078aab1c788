"""ReportNoisyMax: selects the candidate with the highest noisy score, with pure differential privacy."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from syft.core import generator as _generator
from syft.core.generator import Generator
from syft.dp.accounting.events import finite
from syft.dp.mechanisms import noise
from syft.dp.mechanisms.exact_bernoulli import bernoulli_exp, uniform_below
from syft.dp.mechanisms.mechanism import Mechanism, gaps_of

# Scores further below the best one than this number of grid steps are treated as equally bad.
_FARTHEST = 2**52


class ReportNoisyMax(Mechanism):
    """Adds noise to each score and returns only the index of the largest: epsilon-private, exactly.

    Args:
        epsilon: the privacy loss of one release.
        sensitivity: the largest change of any score by one record.
        monotonic: whether for two neighbouring data sets no score is lower, or none is higher. Counts are monotonic
            when a record is added or removed, and not when it is replaced. If so, half the noise
            is enough.
        noise: "exponential", the better choice, by the equivalent permute-and-flip (McKenna and Sheldon 2020), without
            rounding; or "laplace", the older one.
    """

    def __init__(
        self, epsilon: float, sensitivity: float = 1.0, monotonic: bool = False, noise: str = "exponential"
    ) -> None:
        super().__init__(epsilon, None, sensitivity)
        self._epsilon = Fraction(finite("epsilon", epsilon))
        if noise not in _CHOICES:
            raise ValueError(f"noise must be {' or '.join(map(repr, _CHOICES))}, got {noise!r}")
        self.monotonic, self.noise = bool(monotonic), noise
        self._rate = self._epsilon / (1 if monotonic else 2)  # over the sensitivity

    def release(self, scores: object, *, generator: Generator | None = None) -> int:
        """Return the index of the candidate with the largest noisy score."""
        source = _generator.local() if generator is None else generator
        return _CHOICES[self.noise](gaps_of(scores), self._rate, Fraction(self.sensitivity), source)


def _permute_and_flip(gaps: torch.Tensor, rate: Fraction, sensitivity: Fraction, generator: Generator) -> int:
    order = _permutation(len(gaps), generator)
    below = gaps.numpy()[order]
    rate = rate / sensitivity
    heads = bernoulli_exp(below.astype(float) * float(rate), lambda k: rate * Fraction(below[k].item()), generator)
    return int(order[heads.argmax()])  # the best candidate is always accepted


def _permutation(count: int, generator: Generator) -> np.ndarray[Any, np.dtype[np.int64]]:
    while True:
        keys = generator.words(count).numpy()
        order = np.argsort(keys)
        if not np.any(np.diff(keys[order]) == 0):  # equal keys would favour the first
            return order


def _largest_with_laplace(gaps: torch.Tensor, rate: Fraction, sensitivity: Fraction, generator: Generator) -> int:
    step = Fraction(noise.granularity(float(sensitivity / rate)))
    apart = sensitivity / step + 4  # rounding moves the distances of neighbouring scores by at most four steps
    units = (gaps.double() / float(step)).round_().clamp_(max=_FARTHEST).long()
    noisy = noise.discrete_laplace(len(gaps), math.ceil(apart / rate), generator=generator) - units
    best = torch.nonzero(noisy == noisy.max()).view(-1)
    return int(best[int(uniform_below(len(best), 1, generator)[0][0])])


_CHOICES: dict[str, Callable[[torch.Tensor, Fraction, Fraction, Generator], int]] = {
    "exponential": _permute_and_flip,
    "laplace": _largest_with_laplace,
}
