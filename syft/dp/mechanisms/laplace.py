"""Laplace: pure differential privacy for numbers and tensors."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import torch

from syft.core.generator import Generator
from syft.dp.accounting.events import finite
from syft.dp.mechanisms import noise
from syft.dp.mechanisms.mechanism import Mechanism, with_noise


class Laplace(Mechanism):
    """Adds Laplace noise of scale sensitivity / epsilon to each coordinate: epsilon-private, exactly.

    Args:
        epsilon: the privacy loss of one release.
        sensitivity: the largest change of the value by one record, in the L1 norm (the sum over all coordinates).
        granularity: results are multiples of this power of two; 1 gives integers, for counts. By default it is far
            below the noise. Other values are rounded, and the noise grows accordingly.
    """

    def __init__(self, epsilon: float, sensitivity: float = 1.0, granularity: float | None = None) -> None:
        super().__init__(epsilon, None, sensitivity)
        self._epsilon = Fraction(finite("epsilon", epsilon))
        if granularity is not None and (not 0 < granularity < math.inf or math.frexp(granularity)[0] != 0.5):
            raise ValueError(f"granularity must be a power of two, such as 1 or 0.25, got {granularity!r}")
        self.scale = self.sensitivity / float(epsilon)
        self.granularity = noise.granularity(self.scale) if granularity is None else float(granularity)

    def release(self, value: object, *, generator: Generator | None = None) -> Any:
        """Return the value with noise: a float for a number, a tensor of the same shape for a tensor."""
        return with_noise(value, lambda tensor: self._noisy(tensor, generator))

    def _noisy(self, tensor: torch.Tensor, generator: Generator | None) -> torch.Tensor:
        step = Fraction(self.granularity)
        apart = Fraction(self.sensitivity) / step
        if tensor.is_floating_point() or step > 1:
            apart += tensor.numel()  # rounding moves each coordinate of two neighbours apart by at most one step
        else:
            apart = Fraction(max(1, math.floor(apart)))  # integers are an integer number of steps apart
        drawn = noise.discrete_laplace(tensor.shape, _rounded_up(apart / self._epsilon), generator=generator)
        return noise.add_steps(tensor, drawn, self.granularity)


def _rounded_up(scale: Fraction) -> Fraction:
    """Return a scale that is larger by at most a factor of 1 + 2^-50, and has few enough bits to sample with."""
    digits = 2 ** max(0, 52 - (scale.numerator // scale.denominator).bit_length())
    return Fraction(math.ceil(scale * digits), digits)
