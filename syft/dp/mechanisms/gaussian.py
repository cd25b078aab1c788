"""Gaussian: approximate differential privacy with exactly calibrated Gaussian noise."""

from __future__ import annotations

import math
from typing import Any, Self

import torch

from syft.core.generator import Generator
from syft.dp.accounting.events import Event, GaussianNoise, checked, finite
from syft.dp.mechanisms import noise
from syft.dp.mechanisms.mechanism import Mechanism, with_noise

# Exact noise on a grid of 2^-40 is, up to a factor of about 1 + 2^-60 in each probability, a Gaussian that is rounded
# afterwards. This margin in epsilon and delta covers that for a billion coordinates.
_MARGIN = 1 - 2.0**-30


class Gaussian(Mechanism):
    """Adds Gaussian noise: (epsilon, delta)-private, with the exact calibration of Balle and Wang (2018).

    Args:
        epsilon: any positive number; also above 1, where the textbook formula fails.
        delta: above 0 and below 1; well below one over the number of records.
        sensitivity: the largest change of the value by one record, in the L2 norm (Euclidean distance).
    """

    def __init__(self, epsilon: float, delta: float, sensitivity: float = 1.0) -> None:
        super().__init__(finite("epsilon", epsilon), checked("delta", delta, 0, 1, closed=True), sensitivity)
        if delta in (0, 1):
            raise ValueError(f"delta must be between 0 and 1, got {delta!r}. For delta 0 use Laplace")
        self.noise_multiplier = calibrated(float(epsilon), float(delta))

    @classmethod
    def with_noise(cls, noise_multiplier: float, sensitivity: float = 1.0) -> Self:
        """Build a mechanism with a given noise, as a multiple of the sensitivity; its loss is its event alone."""
        made = cls.__new__(cls)
        Mechanism.__init__(made, None, None, sensitivity)
        made.noise_multiplier = GaussianNoise(noise_multiplier).noise_multiplier
        return made

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise."""
        return self.noise_multiplier * self.sensitivity

    @property
    def event(self) -> Event:
        """The privacy loss of one release, which composes better than its (epsilon, delta)."""
        return GaussianNoise(self.noise_multiplier)

    def release(self, value: object, *, generator: Generator | None = None) -> Any:
        """Return the value with noise: a float for a number, a tensor of the same shape for a tensor."""
        return with_noise(value, lambda tensor: self._noisy(tensor, generator))

    def _noisy(self, tensor: torch.Tensor, generator: Generator | None) -> torch.Tensor:
        apart = self.sensitivity + noise.rounding_l2(self.sigma, tensor.numel())
        return noise.add_gaussian(tensor, math.nextafter(self.noise_multiplier * apart, math.inf), generator=generator)


def calibrated(epsilon: float, delta: float) -> float:
    """Return the smallest noise multiplier that is (epsilon, delta)-private in one release."""
    epsilon, delta = epsilon * _MARGIN, delta * _MARGIN
    low, high = 0.0, 1.0  # of the inverse multiplier: delta grows with it
    while delta_of(high, epsilon) <= delta:
        low, high = high, high * 2
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle, epsilon) <= delta else (low, middle)
        if high < 1e-300:
            raise ValueError(f"no noise is enough for epsilon {epsilon:g} and delta {delta:g}")
    return 1 / low


def delta_of(mu: float, epsilon: float) -> float:
    """Return the delta of a Gaussian release whose sensitivity is `mu` standard deviations (Balle and Wang 2018)."""
    tails = torch.tensor([mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu], dtype=torch.float64)
    near, far = (float(tail) for tail in torch.special.log_ndtr(tails))
    # Adds a bound of the rounding error.
    error = 1e-15 * (math.exp(near) * (4 - near) + math.exp(min(epsilon + far, 0.0)) * (4 - far + epsilon))
    return math.exp(near) - math.exp(min(epsilon + far, 0.0)) + error
