"""The probability that a secret draw of clients misses a threshold of secure aggregation.

A round that misses it is noise alone. A client that makes the difference switches the whole sum on, which noise does
not hide. That happens only if the client is drawn and the other drawn clients miss the threshold by themselves, which
is independent of this client. So a round is as private as without a threshold, except with probability
rate * P[the others miss it], which is charged to delta: given that the others do not miss it, the outputs with and
without the client are those of the sampled Gaussian; given that they do, the outputs differ only if it is drawn.

Dropouts are assumed to be independent of the data and of the other drawn clients.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray


@dataclasses.dataclass(frozen=True, slots=True)
class Threshold:
    """The requirements of a round of secure aggregation.

    Attributes:
        least: minimum number of clients at the start of a round.
        left: returns the minimum number of clients at the end, from the number at the start.
    """

    least: int
    left: Callable[[int], int]

    def missed(self, clients: int, rate: float, dropout: float) -> float:
        """Return the probability that the clients other than a given one miss the threshold in a round.

        A client that drops out before a round starts lowers the number at the start; one that drops out later counts
        for `left`. Each is assumed to do both, so the result is an upper bound.

        Args:
            clients: the number of clients, including the given one.
            rate: the probability of each client to be drawn.
            dropout: the share of drawn clients that drop out.
        """
        lost = min(clients - 1, math.ceil(dropout * clients))
        others = clients - 1 - lost
        below = np.cumsum(binomial(others, rate))
        given = int(lost > 0)  # the given client may be lost as well, which must be compensated
        found = 0.0
        for gone, probability in enumerate(binomial(lost, rate)):
            if probability > 0:
                top = max(self.least - 1, self._highest_failure(others, gone + given))
                found += float(probability) * float(below[min(top, others)])
        return min(1.0, found)

    def _highest_failure(self, most: int, gone: int) -> int:
        """Return the largest number of remaining clients, up to `most`, that fails if `gone` are lost; -1 if none."""
        low, high = -1, most + 1  # monotonic: one more remaining client never hurts
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if middle < self.left(middle + gone) else (low, middle)
        return low

    def fitting_least(self, clients: int, rate: float, dropout: float, most: float, lowest: int) -> int | None:
        """Return the largest `least`, from `lowest` on, that is missed with a probability of at most `most`."""
        for least in range(self.least - 1, lowest - 1, -1):
            if dataclasses.replace(self, least=least).missed(clients, rate, dropout) <= most:
                return least
        return None

    def fitting_rate(self, clients: int, rate: float, dropout: float, most: float) -> float | None:
        """Return a rate, rounded up, at which the threshold is missed with a probability of at most `most`."""
        for found in np.arange(math.ceil(rate * 100) / 100, 1.005, 0.01).round(2).tolist():
            if self.missed(clients, found, dropout) * found <= most * rate:
                return float(found)
        return None


def binomial(count: int, rate: float) -> NDArray[np.float64]:
    """Return the probabilities of 0 to `count` successes in independent trials with one rate."""
    found = np.zeros(count + 1)
    if rate >= 1.0:
        found[count] = 1.0
        return found
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, count + 1, dtype=np.float64)))))
    k = np.arange(count + 1)
    found[:] = np.exp(logs[-1] - logs - logs[::-1] + k * math.log(rate) + (count - k) * math.log1p(-rate))
    return found
