"""Exponential: selects a candidate with a high score, with pure differential privacy."""

from __future__ import annotations

from fractions import Fraction

import torch

from syft.core import generator as _generator
from syft.core.generator import Generator
from syft.dp.accounting.events import finite
from syft.dp.mechanisms.exact_bernoulli import bernoulli_exp, uniform_below
from syft.dp.mechanisms.mechanism import Mechanism, gaps_of

_FIRST, _MOST = 64, 1 << 17  # candidates tried at a time


class Exponential(Mechanism):
    """Selects candidate i with probability proportional to exp(epsilon * score_i / (2 sensitivity)), exactly.

    Args:
        epsilon: the privacy loss of one selection.
        sensitivity: the largest change of any score by one record.
        monotonic: whether for two neighbouring data sets no score is lower, or none is higher. Counts are monotonic
            when a record is added or removed, and not when it is replaced. If so, the factor 2 is not needed, and the
            selection is better at the same loss.
    """

    def __init__(self, epsilon: float, sensitivity: float = 1.0, monotonic: bool = False) -> None:
        super().__init__(epsilon, None, sensitivity)
        self._epsilon = Fraction(finite("epsilon", epsilon))
        self.monotonic = bool(monotonic)
        self._rate = self._epsilon / Fraction(self.sensitivity) / (1 if monotonic else 2)

    def probabilities(self, scores: object) -> torch.Tensor:
        """Return the probability of each candidate, as float64. They depend on the data: do not publish them."""
        return torch.softmax(-gaps_of(scores).double() * float(self._rate), dim=0)

    def release(self, scores: object, *, generator: Generator | None = None) -> int:
        """Return the index of the selected candidate."""
        source = _generator.local() if generator is None else generator
        gaps = gaps_of(scores).numpy()
        exponents = gaps.astype(float) * float(self._rate)
        tries = _FIRST

        def exactly(position: int) -> Fraction:
            return self._rate * Fraction(gaps[index[position]].item())

        while True:
            # Rejection sampling: accept a random candidate with its probability relative to the best one.
            index, _ = uniform_below(len(gaps), tries, source)
            kept = bernoulli_exp(exponents[index], exactly, source)
            if kept.any():
                return int(index[kept.argmax()])
            tries = min(2 * tries, _MOST)
