"""Polynomials that approximate a function on small intervals, and their coefficients as integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

Function = Callable[[Any], Any]
# The largest number of bits used within an interval, and the bits of the sum of all terms.
INNER_BITS = 14
ROOM = 61
# Points of each interval at which the error is measured.
SAMPLES = 33
# The finest scale of a table, up to a factor of two.
FINEST = 1 << 20


def fit(function: Function, middles: np.ndarray, half: float, degree: int) -> np.ndarray:
    """Return for each middle the coefficients of a polynomial on [middle - half, middle + half], in units of half."""
    points = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    values = function(middles[:, None] + half * points)
    return np.linalg.solve(np.vander(points, increasing=True), values.T).T


def fit_through_middle(function: Function, middle: float, half: float, degree: int) -> np.ndarray:
    """Return the coefficients of a polynomial as `fit` does, for one middle, where it equals the function exactly.

    The others are those with the least squared error at the Chebyshev points of a higher degree.
    """
    points = np.cos(np.pi * (np.arange(SAMPLES) + 0.5) / SAMPLES)
    value = function(np.array([middle]))
    rest = function(middle + half * points) - value
    others = np.linalg.lstsq(np.vander(points, degree + 1, increasing=True)[:, 1:], rest, rcond=None)[0]
    return np.concatenate([value, others])


def error(function: Function, middles: np.ndarray, half: float, found: np.ndarray) -> np.ndarray:
    """Return the largest distance between each polynomial and the function."""
    points = np.linspace(-1, 1, SAMPLES)
    values = found @ np.vander(points, found.shape[1], increasing=True).T
    distances: np.ndarray = np.abs(values - function(middles[:, None] + half * points)).max(1)
    return distances


def coarser(scale: int) -> int:
    """Return the final factor of results of a scale: a table has room for `FINEST` units only."""
    return max(scale // FINEST, 1)


def whole_numbers(found: np.ndarray, scale: float, low: int) -> tuple[torch.Tensor, int, int]:
    """Return coefficients as `piecewise` takes them: the value in the middle in units, what is left and others finer.

    Returns:
        The coefficients, how many bits within a piece are looked at, and log2 of the scale of the finer ones.
    """
    degree = found.shape[1] - 1
    units = np.rint(found[:, :1] * scale)
    rest = np.concatenate([found[:, :1] * scale - units, found[:, 1:] * scale], 1)
    largest = max(float(np.abs(rest).sum(1).max()), 1.0)
    shift = ROOM - math.ceil(math.log2(largest)) - 1
    inner = min(low, INNER_BITS, (shift - 2) // degree if degree else low)
    shift = min(shift, inner * degree + 16)
    finer = np.rint(rest * 2.0 ** (shift - inner * np.arange(degree + 1)))
    return torch.from_numpy(np.concatenate([units, finer], 1).astype(np.int64)), inner, shift
