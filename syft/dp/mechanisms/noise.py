"""Exact discrete Laplace and Gaussian noise from the cryptographic generator.

Noise drawn as floating-point numbers has gaps that reveal the hidden value (Mironov 2012). Here noise is an integer
drawn from exactly the stated distribution (Canonne, Kamath and Steinke 2020), times a power of two, the granularity:
scale * 2^-40 or slightly less. A value is rounded to a multiple of it before noise is added, so the sum is exact, and
any later rounding in floating point depends on the sum alone. Rounding can move two neighbouring values apart by one
granularity in each coordinate: `rounding_l1` and `rounding_l2` return the increase of the sensitivity, and the
mechanisms add it. For a million coordinates it is at most two millionths of the scale in the L1 norm, and two
billionths in the L2 norm.

The duration of a draw depends on its result, as with all rejection samplers. Do not let strangers time single draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import torch

from syft.core import generator as _generator
from syft.core.generator import Generator
from syft.dp.mechanisms.exact_bernoulli import Words, bernoulli_exp, uniform_below, whole_exponentials

Scale: TypeAlias = int | float | Fraction
Shape: TypeAlias = int | Sequence[int]

RESOLUTION = 40  # granularity is the scale's power of two, times 2^-40
_LEAST_SCALE = Fraction(1, 2**500)
_MOST_SCALE = 2**45
_MOST_NUMERATOR = 2**55
_PIECE = 1 << 17  # samples at a time: their arrays fit into the processor's cache


# Discrete distributions ------------------------------------------------------------------------------------


def discrete_laplace(shape: Shape, scale: Scale, *, generator: Generator | None = None) -> torch.Tensor:
    """Draw integers k with probability proportional to exp(-|k| / scale), exactly.

    Args:
        shape: the shape of the int64 tensor.
        scale: used as an exact number; at most 2^45. Zero returns zeros.
        generator: keyed by the operating system by default; one with a fixed key repeats itself.
    """
    exact = _checked(scale)
    return _filled(shape, exact, lambda count, source: _laplace_piece(exact, count, source), generator)


def discrete_gaussian(shape: Shape, sigma: Scale, *, generator: Generator | None = None) -> torch.Tensor:
    """Draw integers k with probability proportional to exp(-k^2 / (2 sigma^2)), exactly.

    Args:
        shape: the shape of the int64 tensor.
        sigma: used as an exact number; at most 2^45. Zero returns zeros.
        generator: keyed by the operating system by default; one with a fixed key repeats itself.
    """
    exact = _checked(sigma)
    return _filled(shape, exact, lambda count, source: _gaussian_piece(exact, count, source), generator)


def _filled(
    shape: Shape, scale: Fraction, piece: Callable[[int, Generator], Words], generator: Generator | None
) -> torch.Tensor:
    """Fill a tensor, piece by piece, from a sampler that may return too few values."""
    size = torch.Size([shape] if isinstance(shape, int) else shape)
    if any(length < 0 for length in size):
        raise ValueError(f"a shape can't have negative lengths, got {tuple(size)}")
    values = np.zeros(size.numel(), dtype=np.int64)
    source = _generator.local() if generator is None else generator
    done = 0 if scale else len(values)
    while done < len(values):
        wanted = min(len(values) - done, _PIECE)
        found = piece(wanted + wanted // 2 + 8, source)[:wanted]
        values[done : done + len(found)] = found
        done += len(found)
    return torch.from_numpy(values).view(size)


def _laplace_piece(scale: Fraction, count: int, generator: Generator) -> Words:
    # The magnitude is geometric: n times an integer exponential, plus a number below n that is accepted at random.
    numerator, denominator = scale.numerator, scale.denominator
    low, signs = uniform_below(numerator, count, generator)
    kept = bernoulli_exp(low / float(numerator), lambda index: Fraction(int(low[index]), numerator), generator)
    low, negative = low[kept], signs[kept]
    magnitude = low + numerator * whole_exponentials(len(low), generator)
    if denominator > 1:
        magnitude //= min(denominator, 2**62)
    once = ~(negative & (magnitude == 0))  # zero has one sign only
    signed: Words = np.where(negative, -magnitude, magnitude)[once]
    return signed


def _gaussian_piece(sigma: Fraction, count: int, generator: Generator) -> Words:
    around = math.floor(sigma) + 1
    proposed = _laplace_piece(Fraction(around), count, generator)
    variance = sigma**2
    centre = variance / around
    magnitude = np.abs(proposed)
    with np.errstate(over="ignore"):
        exponent = ((magnitude - float(centre)) / float(sigma)) ** 2 / 2
    kept = bernoulli_exp(exponent, lambda index: (int(magnitude[index]) - centre) ** 2 / (2 * variance), generator)
    return proposed[kept]


def _checked(scale: object) -> Fraction:
    """Return a scale as an exact fraction."""
    if isinstance(scale, (torch.Tensor, np.generic)):
        scale = scale.item()
    if isinstance(scale, bool) or not isinstance(scale, (int, float, Fraction)):
        raise ValueError(f"a scale must be a number, got {type(scale).__name__}")
    if not 0 <= scale < math.inf:
        raise ValueError(f"a scale must be finite and non-negative, got {scale!r}")
    exact = Fraction(scale)
    if 0 < exact < _LEAST_SCALE:
        raise ValueError(f"the scale of integer noise must be 0 or at least 2^-500, got {scale!r}")
    if exact > _MOST_SCALE:
        raise ValueError(f"the scale of integer noise must be at most 2^45, got {scale!r}. Divide the data first")
    if exact.numerator > _MOST_NUMERATOR:
        raise ValueError("the scale's numerator has more than 55 bits. Use Fraction.limit_denominator, or a float")
    return exact


# Real numbers on a grid ------------------------------------------------------------------------------------


def granularity(scale: float) -> float:
    """Return the power of two of which noise of this scale is a multiple: between scale * 2^-41 and scale * 2^-40."""
    scale = float(scale)
    if not 0 <= scale < math.inf:
        raise ValueError(f"a scale must be finite and non-negative, got {scale!r}")
    return math.ldexp(1.0, max(math.frexp(scale)[1] - 1 - RESOLUTION, -1022)) if scale else 0.0


def rounding_l1(scale: float, count: int) -> float:
    """Return the largest increase by rounding of the L1 distance of two values with `count` coordinates.

    It holds for noise of up to twice this scale, so also for a scale that is increased by it.
    """
    return 2 * granularity(scale) * count


def rounding_l2(scale: float, count: int) -> float:
    """Return the largest increase by rounding of the L2 distance of two values with `count` coordinates.

    It holds for noise of up to twice this scale, so also for a scale that is increased by it.
    """
    return 2 * granularity(scale) * math.sqrt(count)


def laplace(shape: Shape, scale: float, *, generator: Generator | None = None) -> torch.Tensor:
    """Draw Laplace noise, as float64 multiples of `granularity(scale)`."""
    step, units = _in_steps(scale)
    return discrete_laplace(shape, units, generator=generator).double() * step


def gaussian(shape: Shape, scale: float, *, generator: Generator | None = None) -> torch.Tensor:
    """Draw Gaussian noise of standard deviation `scale`, as float64 multiples of `granularity(scale)`."""
    step, units = _in_steps(scale)
    return discrete_gaussian(shape, units, generator=generator).double() * step


def _in_steps(scale: float) -> tuple[float, Fraction]:
    """Return the granularity of a scale, and the scale as a multiple of it."""
    step = granularity(scale)
    return step, Fraction(float(scale)) / Fraction(step) if step else Fraction(0)


def add_laplace(tensor: torch.Tensor, scale: float, *, generator: Generator | None = None) -> torch.Tensor:
    """Return the values on the grid plus Laplace noise, in the values' dtype, or float64 for integers.

    Args:
        tensor: finite numbers.
        scale: the scale of the noise: the L1 sensitivity, with `rounding_l1` added, over epsilon.
        generator: see `discrete_laplace`.
    """
    step, units = _in_steps(scale)
    return add_steps(tensor, discrete_laplace(tensor.shape, units, generator=generator), step)


def add_gaussian(tensor: torch.Tensor, sigma: float, *, generator: Generator | None = None) -> torch.Tensor:
    """Return the values on the grid plus Gaussian noise, in the values' dtype, or float64 for integers.

    Args:
        tensor: finite numbers.
        sigma: the standard deviation of the noise; the noise multiplier times the L2 sensitivity, with `rounding_l2`.
        generator: see `discrete_laplace`.
    """
    step, units = _in_steps(sigma)
    return add_steps(tensor, discrete_gaussian(tensor.shape, units, generator=generator), step)


def add_steps(tensor: torch.Tensor, drawn: torch.Tensor, step: float) -> torch.Tensor:
    """Return the values, rounded to multiples of a power of two, plus integers times that power."""
    if tensor.is_complex() or not bool(torch.isfinite(tensor).all()):
        raise ValueError("noise needs finite real numbers. Clip or replace nan and infinite values first")
    dtype = tensor.dtype if tensor.is_floating_point() else torch.float64
    if not step:
        return tensor.detach().to(dtype, copy=True)
    units = (tensor.detach().to("cpu", torch.float64) / step).round_()
    if not bool(torch.isfinite(units).all()):
        raise ValueError(f"the values are too large for noise in steps of {step!r}. Clip them, or use more noise")
    # Both are integers: the sum is exact, rounded to float64. Scaling by a power of two is exact.
    return (units.add_(drawn) * step).to(tensor.device, dtype)


# Fast approximate noise ------------------------------------------------------------------------------------


def gaussian_like(tensor: torch.Tensor, std: float, *, generator: Generator | None = None) -> torch.Tensor:
    """Draw Gaussian noise of a tensor's shape, dtype and device, fast enough for each step of training.

    Each number is the sum of two normal numbers over the root of two, each from 106 random bits by the Box-Muller
    method. So many inputs map to a result that the gaps of floating point can't be searched (Holohan and Braghin 2021).
    This is weaker than the exact noise of `add_gaussian`: use that for single releases, and this for training steps.

    Args:
        tensor: a tensor of floating-point numbers; only its shape, dtype and device matter.
        std: the standard deviation.
        generator: see `discrete_laplace`.
    """
    if not tensor.is_floating_point():
        raise ValueError(f"gaussian_like() needs a floating-point tensor, got {tensor.dtype}")
    if not 0 <= float(std) < math.inf:
        raise ValueError(f"a standard deviation must be finite and non-negative, got {std!r}")
    drawn = torch.empty(tensor.numel(), dtype=torch.float64)
    source = _generator.local() if generator is None else generator
    for start in range(0, len(drawn), _PIECE // 4):
        _normal_into(drawn[start : start + _PIECE // 4], float(std), source)
    return drawn.view(tensor.shape).to(tensor.device, tensor.dtype)


def _normal_into(piece: torch.Tensor, std: float, generator: Generator) -> None:
    words = generator.words(4, len(piece)).bitwise_right_shift(11)
    uniform = words.bitwise_and_(2**53 - 1).double()
    radius = uniform[:2].add_(1.0).mul_(2.0**-53).log_().neg_().sqrt_().mul_(std)
    angle = uniform[2:].mul_(2 * math.pi * 2.0**-53)
    torch.sum(radius.mul_(angle.cos_()), dim=0, out=piece)
