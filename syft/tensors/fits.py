"""Polynomials that stand for a function on intervals: how they are found, what they give, and how far they are off.

On each interval the polynomial is written in the distance from the middle, in units of half the width, so that all of
its terms are of one size.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from syft.exceptions import SyftError

Function = Callable[[torch.Tensor], torch.Tensor]
Interval = tuple[float, float]
# Intervals and samples as users pass them.
Intervals = Sequence[float] | Sequence[Sequence[float]]
Numbers = Sequence[float] | torch.Tensor
Samples = tuple[Numbers, Numbers]
MAX_DEGREE = 20
MAX_INTERVALS = 256
# How many places of an interval the error is measured at.
PLACES = 1001


@dataclasses.dataclass(frozen=True, slots=True)
class Fit:
    """A polynomial for each of some intervals.

    Attributes:
        degree: of all polynomials.
        intervals: where they hold, one after the other.
        fit_type: how they were found.
        coefficients: for each interval, from the power 0 on.
        error: the largest distance from the function that was measured.
    """

    degree: int
    intervals: tuple[Interval, ...]
    fit_type: str
    coefficients: tuple[tuple[float, ...], ...]
    error: float

    @property
    def ends(self) -> Interval:
        """Where the first interval begins, and where the last one ends."""
        return self.intervals[0][0], self.intervals[-1][1]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Return the values at some places; before and after the intervals they stay as they are at the ends."""
        return self.continued(x.clamp(*self.ends))

    def continued(self, x: torch.Tensor) -> torch.Tensor:
        """Return the values at some places; the outer polynomials go on beyond the ends."""
        inner = torch.tensor([stop for _, stop in self.intervals[:-1]], dtype=torch.float64)
        piece = torch.bucketize(x.detach(), inner)
        edges, table = (torch.tensor(rows, dtype=torch.float64) for rows in (self.intervals, self.coefficients))
        middle, half = edges.mean(1)[piece], ((edges[:, 1] - edges[:, 0]) / 2)[piece]
        place, chosen = (x - middle) / half, table[piece]
        made = chosen[..., -1]
        for power in range(self.degree - 1, -1, -1):
            made = made * place + chosen[..., power]
        return made

    def slope(self) -> Fit:
        """Return the derivative between the ends."""
        rows = []
        for (start, stop), row in zip(self.intervals, self.coefficients, strict=True):
            scale = 2 / (stop - start)
            rows.append(tuple(power * value * scale for power, value in enumerate(row) if power) or (0.0,))
        return Fit(max(self.degree - 1, 0), self.intervals, self.fit_type, tuple(rows), math.inf)

    def plain(self) -> tuple[Any, ...]:
        """Return what travels."""
        return (self.degree, self.intervals, self.fit_type, self.coefficients, self.error)

    @classmethod
    def from_plain(cls, given: object) -> Fit:
        """Rebuild one that a stranger may have made."""
        if not isinstance(given, list | tuple) or len(given) != 5:
            raise TypeError("a fit has a degree, intervals, a type, coefficients and an error")
        degree, intervals, fit_type, rows, error = given
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


# --- what is taken ----------------------------------------------------------------------------------------------


def check_degree(degree: object) -> None:
    """Raise if something is no degree."""
    if type(degree) is not int or not 0 <= degree <= MAX_DEGREE:
        raise SyftError(f"The degree of a polynomial is a whole number from 0 to {MAX_DEGREE}.")


def check_intervals(intervals: object) -> tuple[Interval, ...]:
    """Return intervals as pairs of numbers, one after the other, or raise."""
    given = intervals if isinstance(intervals, list | tuple) else ()
    if given and not isinstance(given[0], list | tuple):
        given = (given,)  # a single one
    if not 0 < len(given) <= MAX_INTERVALS or not all(map(_is_pair, given)):
        raise SyftError(f"Intervals are given as 1 to {MAX_INTERVALS} pairs of finite numbers: [[-8, 0], [0, 8]].")
    edges = tuple((float(start), float(stop)) for start, stop in given)
    for start, stop in edges:
        if not start < stop:
            raise SyftError(f"The interval [{start:g}, {stop:g}] is empty: it must begin before it ends.")
    for (_, stop), (start, _) in itertools.pairwise(edges):
        if start != stop:
            wrong = "overlap" if start < stop else "leave a gap"
            raise SyftError(f"Intervals follow each other: two of them {wrong} between {stop:g} and {start:g}.")
    return edges


def _is_pair(given: Any) -> bool:
    numbers = isinstance(given, list | tuple) and len(given) == 2
    return numbers and all(type(edge) in (int, float) and math.isfinite(edge) for edge in given)


def check_samples(given: object) -> tuple[torch.Tensor, torch.Tensor]:
    """Return samples as places and values, from the lowest place on, or raise."""
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise SyftError("Give a function of tensors, or samples: (places, values), two tensors of one length.")
    places, values = (torch.as_tensor(part).detach().double().reshape(-1) for part in given)
    if places.shape != values.shape:
        raise SyftError(f"There are {places.numel()} places and {values.numel()} values; samples are pairs.")
    if not bool(torch.isfinite(places).all() and torch.isfinite(values).all()):
        raise SyftError("Samples are finite numbers; take NaN and infinity out first.")
    order = places.argsort()
    return places[order], values[order]


# --- finding polynomials ----------------------------------------------------------------------------------------


def _values(function: Function, places: torch.Tensor, interval: Interval) -> torch.Tensor:
    values = torch.as_tensor(function(places))
    if values.shape != places.shape or values.is_complex():
        raise SyftError("A function to be fitted gives one real number for each number.")
    if not bool(torch.isfinite(values).all()):
        start, stop = interval
        raise SyftError(f"The function is not finite on [{start:g}, {stop:g}]; choose intervals where it is.")
    return values.double()


def _scaled(places: torch.Tensor, interval: Interval) -> torch.Tensor:
    start, stop = interval
    return (places - (start + stop) / 2) / ((stop - start) / 2)


def interpolate(function: Function, interval: Interval, degree: int) -> tuple[float, ...]:
    """Return the polynomial that agrees with a function at the Chebyshev points of an interval."""
    start, stop = interval
    points = torch.cos(math.pi * (torch.arange(degree + 1, dtype=torch.float64) + 0.5) / (degree + 1))
    values = _values(function, (start + stop) / 2 + (stop - start) / 2 * points, interval)
    return tuple(torch.linalg.solve(torch.vander(points, increasing=True), values).tolist())


def taylor(function: Function, interval: Interval, degree: int) -> tuple[float, ...]:
    """Return the polynomial that has the derivatives of a function in the middle of an interval."""
    start, stop = interval
    half = (stop - start) / 2
    place = torch.tensor([(start + stop) / 2], dtype=torch.float64, requires_grad=True)
    found, factor = [], 1.0
    with torch.enable_grad():
        value = function(place)
        _values(lambda _: value.detach(), place.detach(), interval)
        for power in range(degree + 1):
            if not math.isfinite(float(value.detach())):
                raise SyftError(f"A derivative of the function is not finite at {(start + stop) / 2:g}.")
            found.append(float(value.detach()) * factor)
            factor *= half / (power + 1)
            if power < degree:
                value = _derivative(value, place)
    return tuple(found)


def _derivative(value: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    if not value.requires_grad:
        return torch.zeros_like(place)
    found: Any = torch.autograd.grad(value.sum(), place, create_graph=True, allow_unused=True)[0]
    made: torch.Tensor = torch.zeros_like(place) if found is None else found
    return made


def through(samples: tuple[torch.Tensor, torch.Tensor], interval: Interval, degree: int) -> tuple[float, ...]:
    """Return the polynomial that is nearest to samples, in the sense of least squares."""
    start, stop = interval
    places, values = samples
    inside = (places >= start) & (places <= stop)
    count = len(set(places[inside].tolist()))
    if count <= degree:
        raise SyftError(
            f"On [{start:g}, {stop:g}] there are samples at {count} places; degree {degree} takes {degree + 1} or more."
        )
    table = torch.vander(_scaled(places[inside], interval), N=degree + 1, increasing=True)
    return tuple(torch.linalg.lstsq(table, values[inside].unsqueeze(1), driver="gelsd").solution[:, 0].tolist())


# How a polynomial is found for a function.
FIT_TYPES: dict[str, Callable[[Function, Interval, int], tuple[float, ...]]] = {"interp": interpolate, "taylor": taylor}


def fit(function: Function | Samples, intervals: Intervals, degree: int, fit_type: object) -> Fit:
    """Find a polynomial for each interval, and measure how far off they are.

    Args:
        function: of float64 tensors; or samples of one: (places, values).
        intervals: pairs of numbers, one after the other; or a single pair.
        degree: of the polynomials.
        fit_type: "interp" (agree at Chebyshev points; samples: least squares) or "taylor" (around the middle).
    """
    check_degree(degree)
    edges = check_intervals(intervals)
    if not isinstance(fit_type, str) or fit_type not in FIT_TYPES:
        raise SyftError(f"fit_type is one of {', '.join(map(repr, FIT_TYPES))}, not {str(fit_type)[:20]!r}.")
    if callable(function):
        rows = tuple(FIT_TYPES[fit_type](function, interval, degree) for interval in edges)
        return _measured(function, Fit(degree, edges, fit_type, rows, math.inf))
    if fit_type != "interp":
        raise SyftError("A Taylor polynomial takes a function that torch can differentiate; samples take 'interp'.")
    samples = check_samples(function)
    made = Fit(degree, edges, fit_type, tuple(through(samples, interval, degree) for interval in edges), math.inf)
    start, stop = made.ends
    inside = (samples[0] >= start) & (samples[0] <= stop)
    off = (made(samples[0][inside]) - samples[1][inside]).abs().max()
    return dataclasses.replace(made, error=float(off))


def _measured(function: Function, made: Fit) -> Fit:
    error = 0.0
    for interval in made.intervals:
        places = torch.linspace(*interval, PLACES, dtype=torch.float64)
        off = (made(places) - _values(function, places, interval)).abs().max()
        error = max(error, float(off))
    return dataclasses.replace(made, error=error)
