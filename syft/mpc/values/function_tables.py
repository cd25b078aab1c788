"""Functions as tables of polynomials in whole numbers, which `protocols.lookup.piecewise` evaluates on shares.

A function is divided into pieces of equal width. Each piece has the polynomial that interpolates it at the Chebyshev
points of an interval that reaches to the middles of both neighbours (see `protocols.lookup` for why it must be correct
that far). The number of pieces is the smallest power of two that keeps the error below a unit of the format, or below
`FINEST`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from syft.core.providers import providers
from syft.exceptions import SyftError
from syft.mpc.protocols.lookup import MAX_WIDTH
from syft.mpc.ring import piecewise_fit
from syft.mpc.ring.piecewise_fit import coarser, fit, fit_through_middle, whole_numbers
from syft.mpc.runtime import client
from syft.mpc.values.encoding import encode_plain
from syft.tensors.fits import Fit
from syft.tensors.precision import FixedPrecisionTensor

Function = Callable[[torch.Tensor], torch.Tensor]
Line = tuple[float, float]
DEGREE = 3
MIN_WIDTH = 4
# The smallest error that a table aims for, whatever the format.
FINEST = 1e-4
# The maximum of values and of interval ends of a fit, in units.
ROOM = 2.0**56


@dataclasses.dataclass(frozen=True, slots=True)
class FunctionShape:
    """A function on an interval, and the lines that continue it outside.

    Attributes:
        function: of float64 tensors.
        start: where the interval begins.
        stop: where it ends.
        below: slope and value at 0 of the line before it.
        above: slope and value at 0 of the line after it.
        degree: of the polynomials.
    """

    function: Function
    start: float
    stop: float
    below: Line = (0.0, 0.0)
    above: Line = (0.0, 1.0)
    degree: int = DEGREE


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """The arguments of `piecewise` for a function.

    Attributes:
        coefficients: a row for each piece.
        options: the options of `piecewise`.
        error: the largest distance from the function that was measured between the edges.
    """

    coefficients: torch.Tensor
    options: dict[str, Any]
    error: float


def _gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x, approximate="tanh")


def _gelu_slope(x: torch.Tensor) -> torch.Tensor:
    made: torch.Tensor = torch.special.ndtr(x) + x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return made


def _gelu_tanh_slope(x: torch.Tensor) -> torch.Tensor:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    growth = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
    return 0.5 * (1 + torch.tanh(inner)) + 0.5 * x * (1 - torch.tanh(inner) ** 2) * growth


def _silu_slope(x: torch.Tensor) -> torch.Tensor:
    s = torch.sigmoid(x)
    return s + x * s * (1 - s)


def _mish_slope(x: torch.Tensor) -> torch.Tensor:
    t = torch.tanh(torch.nn.functional.softplus(x))
    return t + x * (1 - t * t) * torch.sigmoid(x)


def acos_factor(x: torch.Tensor) -> torch.Tensor:
    """Return acos(x) / sqrt(1 - x) on [0, 1], which is smooth around 1; the nearer end of that outside of it."""
    inside = x.clamp(0, 1)
    return torch.where(inside == 1, math.sqrt(2), torch.acos(inside) / (1 - inside).sqrt())


IDENTITY: Line = (1.0, 0.0)
SHAPES: dict[str, FunctionShape] = {
    "sigmoid": FunctionShape(torch.sigmoid, -12, 12),
    "tanh": FunctionShape(torch.tanh, -6.5, 6.5, (0, -1)),
    "erf": FunctionShape(torch.erf, -3.2, 3.2, (0, -1)),
    "gelu": FunctionShape(torch.nn.functional.gelu, -5, 5, above=IDENTITY),
    "gelu_tanh": FunctionShape(_gelu_tanh, -5, 5, above=IDENTITY),
    "silu": FunctionShape(torch.nn.functional.silu, -14, 14, above=IDENTITY),
    "softplus": FunctionShape(torch.nn.functional.softplus, -12, 12, above=IDENTITY),
    "log_sigmoid": FunctionShape(torch.nn.functional.logsigmoid, -12, 12, IDENTITY, (0, 0)),
    "mish": FunctionShape(torch.nn.functional.mish, -14, 14, above=IDENTITY),
    "acos_factor": FunctionShape(acos_factor, 0, 1, (0, math.pi / 2), (0, math.sqrt(2))),
}
SLOPES: dict[str, Function] = {
    "gelu_slope": _gelu_slope,
    "gelu_tanh_slope": _gelu_tanh_slope,
    "silu_slope": _silu_slope,
    "mish_slope": _mish_slope,
}
SHAPES |= {name: FunctionShape(slope, -16, 16) for name, slope in SLOPES.items()}
SHAPES |= {name: FunctionShape(SLOPES[name], -6, 6) for name in ("gelu_slope", "gelu_tanh_slope")}
# Periodic functions: one period is 2^64 units, and so is the table.
WAVES: dict[str, Function] = {"sin": torch.sin, "cos": torch.cos}
WAVE_WIDTH = 5


def _by_numpy(function: Function) -> Callable[[Any], Any]:
    """Return a function of numpy's arrays."""
    return lambda places: function(torch.from_numpy(np.ascontiguousarray(places))).numpy()


def tabulate(shape: FunctionShape, scale: int) -> Table:
    """Make the table of a function for numbers with a scale."""
    if not shape.start < shape.stop or not all(map(math.isfinite, (shape.start, shape.stop))):
        raise SyftError(f"The interval of a function must be finite and ascending, got {shape.start} to {shape.stop}.")
    for width in range(MIN_WIDTH, MAX_WIDTH + 1):
        made = _table(shape, scale, width)
        if made.error <= max(FINEST, 0.5 / scale):
            break
    return made


def _table(shape: FunctionShape, scale: int, width: int) -> Table:
    """Make a table of 2^width pieces."""
    count = 1 << width
    first, last = math.floor(shape.start * scale), math.ceil(shape.stop * scale)
    low = max(math.ceil(math.log2((last - first) / (count - 2))), 0)
    step = 2**low
    lowest = first // step  # the pieces are those around lowest, lowest + 1, ... times the step
    middles, half = np.arange(lowest, lowest + count) * (step / scale), step / scale
    function = _by_numpy(shape.function)
    found = _fit(function, middles, half, shape.degree)
    inside = (middles > shape.start - half) & (middles < shape.stop + half)
    found[~inside] = 0  # never selected
    distance = float(piecewise_fit.error(function, middles[inside], half, found[inside]).max())
    coefficients, options = _written(found, scale, low)
    options |= {"edges": (first, last), "outside": (*_line(shape.below, scale), *_line(shape.above, scale))}
    return Table(torch.roll(coefficients, lowest % count, 0), options, distance)  # the piece around 0 first


def _fit(function: Callable[[Any], Any], middles: np.ndarray, half: float, degree: int) -> np.ndarray:
    """Fit polynomials; the one around 0 is exact at 0, so that f(0) has no error."""
    found = fit(function, middles, half, degree)
    at = np.flatnonzero(middles == 0)
    if len(at) and np.isfinite(found[at[0]]).all():
        found[at[0]] = fit_through_middle(function, 0.0, half, degree)
    return found


def _written(found: np.ndarray, scale: int, low: int) -> tuple[torch.Tensor, dict[str, Any]]:
    """Return coefficients as whole numbers, and the options of `piecewise` that go with them."""
    times = coarser(scale)
    coefficients, inner, shift = whole_numbers(found, scale / times, low)
    return coefficients, {"low": low, "drop": low - inner, "shift": shift, "times": times}


def _line(line: Line, scale: int) -> tuple[int, int]:
    slope, start = line
    if slope != round(slope):
        raise SyftError("The slope of a function outside its interval must be a whole number.")
    return round(slope), round(start * scale)


@functools.lru_cache(maxsize=256)
def table_of(name: str, scale: int) -> Table:
    """Return the table of one of the functions that are there."""
    return _wave(WAVES[name], scale) if name in WAVES else tabulate(SHAPES[name], scale)


def _wave(shape: Function, scale: int) -> Table:
    """Make the table of a function that repeats: all numbers have their place in it."""
    count, low = 1 << WAVE_WIDTH, 64 - WAVE_WIDTH
    half = 2 * math.pi / count
    middles, function = np.arange(count) * half, _by_numpy(shape)
    found = _fit(function, middles, half, DEGREE)
    coefficients, options = _written(found, scale, low)
    options["factor"] = round(2**64 / (2 * math.pi * scale))
    return Table(coefficients, options, float(piecewise_fit.error(function, middles, half, found).max()))


# --- fitted functions (`syft.tensors.polynomial`) ---------------------------------------------------------------


@functools.lru_cache(maxsize=128)
def table_of_fit(fitted: Fit, scale: int, is_slope: bool) -> Table:
    """Return the table of a fit for numbers with a scale."""
    start, stop = fitted.ends
    ends = fitted(torch.tensor([start, stop], dtype=torch.float64)).tolist()
    largest = float(fitted(torch.linspace(start, stop, 1001, dtype=torch.float64)).abs().max())
    if max(largest, abs(start), abs(stop)) * scale >= ROOM:
        raise SyftError(
            f"Between {start:g} and {stop:g} this function reaches {largest:.3g}, which has no room with {scale} units "
            "to one. Use fewer digits (precision_fractional), or a smaller interval."
        )
    below, above = (0.0, 0.0) if is_slope else ends
    shape = FunctionShape(
        fitted.continued, start, stop, (0.0, below), (0.0, above), degree=min(max(fitted.degree, 1), 3)
    )
    return tabulate(shape, scale)


def evaluate(fitted: Fit, link: FixedPrecisionTensor, is_slope: bool = False) -> FixedPrecisionTensor:
    """Evaluate a fit."""
    if link.is_shared:
        table = table_of_fit(fitted, link.scale, is_slope)
        return link.like(client.run("piecewise", link.child, table.coefficients, **table.options))
    numbers = link.child.double() / link.scale
    made = fitted(numbers)
    if is_slope:
        start, stop = fitted.ends
        made = torch.where((numbers >= start) & (numbers <= stop), made, 0.0)
    return link.like(encode_plain(made, link.scale, link.field))


def slope(fitted: Fit, link: FixedPrecisionTensor) -> FixedPrecisionTensor:
    """Compute the derivative of a fit: 0 before and after its intervals."""
    return evaluate(fitted.slope(), link, is_slope=True)


def error(fitted: Fit, link: FixedPrecisionTensor) -> float:
    """Return the error that a format adds to a fit."""
    return table_of_fit(fitted, link.scale, False).error + 1.5 / link.scale if link.is_shared else 0.5 / link.scale


providers.evaluator = sys.modules[__name__]
