"""Piecewise polynomial approximations of functions: fitting, evaluation and measured error.

On each interval the polynomial is in the distance from the middle, in units of half the width, so that its terms are
of similar size.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from syft._suggestions import did_you_mean
from syft.exceptions import SyftError

Function = Callable[[torch.Tensor], torch.Tensor]
Interval = tuple[float, float]
# Intervals and samples as users pass them.
Intervals = Sequence[float] | Sequence[Sequence[float]]
Numbers = Sequence[float] | torch.Tensor
Samples = tuple[Numbers, Numbers]
MAX_DEGREE = 20
MAX_INTERVALS = 256
# The number of points of an interval at which the error is measured.
POINTS = 1001


@dataclasses.dataclass(frozen=True, slots=True)
class Fit:
    """A polynomial for each of some intervals.

    Attributes:
        degree: of all polynomials.
        intervals: their intervals, adjacent and in order.
        fit_type: how they were found.
        coefficients: for each interval, from power 0 upwards.
        error: the largest measured distance from the function.
    """

    degree: int
    intervals: tuple[Interval, ...]
    fit_type: str
    coefficients: tuple[tuple[float, ...], ...]
    error: float

    @property
    def ends(self) -> Interval:
        """The start of the first interval, and the end of the last one."""
        return self.intervals[0][0], self.intervals[-1][1]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Return the values at points; outside of the intervals they are those at the ends."""
        return self.continued(x.clamp(*self.ends))

    def continued(self, x: torch.Tensor) -> torch.Tensor:
        """Return the values at points; the outer polynomials extend beyond the ends."""
        inner = torch.tensor([stop for _, stop in self.intervals[:-1]], dtype=torch.float64)
        piece = torch.bucketize(x.detach(), inner)
        edges, table = (torch.tensor(rows, dtype=torch.float64) for rows in (self.intervals, self.coefficients))
        middle, half = edges.mean(1)[piece], ((edges[:, 1] - edges[:, 0]) / 2)[piece]
        point, chosen = (x - middle) / half, table[piece]
        made = chosen[..., -1]
        for power in range(self.degree - 1, -1, -1):
            made = made * point + chosen[..., power]
        return made

    def slope(self) -> Fit:
        """Return the derivative between the ends."""
        rows = []
        for (start, stop), row in zip(self.intervals, self.coefficients, strict=True):
            scale = 2 / (stop - start)
            rows.append(tuple(power * value * scale for power, value in enumerate(row) if power) or (0.0,))
        return Fit(max(self.degree - 1, 0), self.intervals, self.fit_type, tuple(rows), math.inf)

    def plain(self) -> tuple[Any, ...]:
        """Return the fields as plain values."""
        return (self.degree, self.intervals, self.fit_type, self.coefficients, self.error)

    @classmethod
    def from_plain(cls, fields: object) -> Fit:
        """Rebuild an untrusted fit."""
        if not isinstance(fields, list | tuple) or len(fields) != 5:
            raise TypeError("a fit has a degree, intervals, a type, coefficients and an error")
        degree, intervals, fit_type, rows, error = fields
        check_degree(degree)
        edges = check_intervals(intervals)
        if fit_type not in FIT_TYPES or type(error) is not float:
            raise TypeError("a fit has a degree, intervals, a type, coefficients and an error")
        if not isinstance(rows, list | tuple) or len(rows) != len(edges):
            raise TypeError("a fit has as many polynomials as intervals")
        if not all(isinstance(row, list | tuple) and len(row) == degree + 1 for row in rows):
            raise TypeError("a polynomial has a coefficient for each power")
        if not all(type(value) is float and math.isfinite(value) for row in rows for value in row):
            raise TypeError("coefficients are finite numbers")
        return cls(degree, edges, fit_type, tuple(tuple(row) for row in rows), error)


# --- arguments -------------------------------------------------------------------------------------------------


def check_degree(degree: object) -> None:
    """Raise unless a value is a valid degree."""
    if type(degree) is not int or not 0 <= degree <= MAX_DEGREE:
        raise SyftError(f"degree must be an integer from 0 to {MAX_DEGREE}.")


def check_intervals(intervals: object) -> tuple[Interval, ...]:
    """Return intervals as adjacent pairs of numbers, or raise."""
    pairs = intervals if isinstance(intervals, list | tuple) else ()
    if pairs and not isinstance(pairs[0], list | tuple):
        pairs = (pairs,)  # a single one
    if not 0 < len(pairs) <= MAX_INTERVALS or not all(map(_is_pair, pairs)):
        raise SyftError(f"intervals must be 1 to {MAX_INTERVALS} pairs of finite numbers: [[-8, 0], [0, 8]].")
    edges = tuple((float(start), float(stop)) for start, stop in pairs)
    for start, stop in edges:
        if not start < stop:
            raise SyftError(f"The interval [{start:g}, {stop:g}] is empty: it must begin before it ends.")
    for (_, stop), (start, _) in itertools.pairwise(edges):
        if start != stop:
            wrong = "overlap" if start < stop else "leave a gap"
            raise SyftError(f"Intervals must be adjacent, but two of them {wrong} between {stop:g} and {start:g}.")
    return edges


def _is_pair(value: Any) -> bool:
    is_pair = isinstance(value, list | tuple) and len(value) == 2
    return is_pair and all(type(edge) in (int, float) and math.isfinite(edge) for edge in value)


def check_samples(samples: object) -> tuple[torch.Tensor, torch.Tensor]:
    """Return samples as sorted points and values, or raise."""
    if not isinstance(samples, list | tuple) or len(samples) != 2:
        raise SyftError("Pass a function of tensors, or samples: (points, values), two tensors of one length.")
    points, values = (torch.as_tensor(part).detach().double().reshape(-1) for part in samples)
    if points.shape != values.shape:
        raise SyftError(f"Samples need as many points as values, got {points.numel()} and {values.numel()}.")
    if not bool(torch.isfinite(points).all() and torch.isfinite(values).all()):
        raise SyftError("Samples must be finite numbers. Remove NaN and infinity first.")
    order = points.argsort()
    return points[order], values[order]


# --- finding polynomials ----------------------------------------------------------------------------------------


def _values(function: Function, points: torch.Tensor, interval: Interval) -> torch.Tensor:
    values = torch.as_tensor(function(points))
    if values.shape != points.shape or values.is_complex():
        raise SyftError("The function must return one real number for each number.")
    if not bool(torch.isfinite(values).all()):
        start, stop = interval
        raise SyftError(f"The function is not finite on [{start:g}, {stop:g}]. Choose intervals where it is.")
    return values.double()


def _scaled(points: torch.Tensor, interval: Interval) -> torch.Tensor:
    start, stop = interval
    return (points - (start + stop) / 2) / ((stop - start) / 2)


def interpolate(function: Function, interval: Interval, degree: int) -> tuple[float, ...]:
    """Return the polynomial that agrees with a function at the Chebyshev points of an interval."""
    start, stop = interval
    points = torch.cos(math.pi * (torch.arange(degree + 1, dtype=torch.float64) + 0.5) / (degree + 1))
    values = _values(function, (start + stop) / 2 + (stop - start) / 2 * points, interval)
    return tuple(torch.linalg.solve(torch.vander(points, increasing=True), values).tolist())


def taylor(function: Function, interval: Interval, degree: int) -> tuple[float, ...]:
    """Return the Taylor polynomial of a function at the middle of an interval."""
    start, stop = interval
    half = (stop - start) / 2
    point = torch.tensor([(start + stop) / 2], dtype=torch.float64, requires_grad=True)
    found, factor = [], 1.0
    with torch.enable_grad():
        value = function(point)
        _values(lambda _: value.detach(), point.detach(), interval)
        for power in range(degree + 1):
            if not math.isfinite(float(value.detach())):
                raise SyftError(f"A derivative of the function is not finite at {(start + stop) / 2:g}.")
            found.append(float(value.detach()) * factor)
            factor *= half / (power + 1)
            if power < degree:
                value = _derivative(value, point)
    return tuple(found)


def _derivative(value: torch.Tensor, point: torch.Tensor) -> torch.Tensor:
    if not value.requires_grad:
        return torch.zeros_like(point)
    found: Any = torch.autograd.grad(value.sum(), point, create_graph=True, allow_unused=True)[0]
    made: torch.Tensor = torch.zeros_like(point) if found is None else found
    return made


def through(samples: tuple[torch.Tensor, torch.Tensor], interval: Interval, degree: int) -> tuple[float, ...]:
    """Return the polynomial of least squares through samples."""
    start, stop = interval
    points, values = samples
    inside = (points >= start) & (points <= stop)
    count = len(set(points[inside].tolist()))
    if count <= degree:
        raise SyftError(f"Degree {degree} needs samples at {degree + 1} points of [{start:g}, {stop:g}], got {count}.")
    table = torch.vander(_scaled(points[inside], interval), N=degree + 1, increasing=True)
    return tuple(torch.linalg.lstsq(table, values[inside].unsqueeze(1), driver="gelsd").solution[:, 0].tolist())


# Methods to fit a polynomial to a function.
FIT_TYPES: dict[str, Callable[[Function, Interval, int], tuple[float, ...]]] = {"interp": interpolate, "taylor": taylor}


def fit(function: Function | Samples, intervals: Intervals, degree: int, fit_type: object) -> Fit:
    """Fit a polynomial on each interval, and measure the error; arguments as of `PolynomialTensor.add_function`."""
    check_degree(degree)
    edges = check_intervals(intervals)
    if not isinstance(fit_type, str) or fit_type not in FIT_TYPES:
        valid = ", ".join(map(repr, FIT_TYPES))
        hint = did_you_mean(fit_type, FIT_TYPES)
        raise SyftError(f"fit_type must be one of {valid}, got {str(fit_type)[:20]!r}.{hint}")
    if callable(function):
        rows = tuple(FIT_TYPES[fit_type](function, interval, degree) for interval in edges)
        return _measured(function, Fit(degree, edges, fit_type, rows, math.inf))
    if fit_type != "interp":
        raise SyftError("fit_type 'taylor' needs a function that torch can differentiate. Use 'interp' for samples.")
    samples = check_samples(function)
    made = Fit(degree, edges, fit_type, tuple(through(samples, interval, degree) for interval in edges), math.inf)
    start, stop = made.ends
    inside = (samples[0] >= start) & (samples[0] <= stop)
    off = (made(samples[0][inside]) - samples[1][inside]).abs().max()
    return dataclasses.replace(made, error=float(off))


def _measured(function: Function, made: Fit) -> Fit:
    error = 0.0
    for interval in made.intervals:
        points = torch.linspace(*interval, POINTS, dtype=torch.float64)
        off = (made(points) - _values(function, points, interval)).abs().max()
        error = max(error, float(off))
    return dataclasses.replace(made, error=error)
