"""The functions that are approximated: where they are worked out, what they are elsewhere, and how far they may be off.

Numbers are made in units of the last place, so that every number of a format can be asked for, and results are read in
units: float32 is coarser than some formats.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from syft.mpc.protocols.exponential import edges

Call = Callable[..., Any]
Units = Callable[[int], torch.Tensor]
POINTS = 701
# Whole numbers lie below this.
LIMIT = 2**62


@dataclasses.dataclass(frozen=True)
class Function:
    """One function.

    Attributes:
        call: the function, of encrypted numbers and of float64.
        points: the numbers at which it is compared, in units, for a scale.
        domain: the domain, as on the page.
        outside: the value outside the domain, as on the page.
        units: how many units of the last place it may be off,
        absolute: and how much beyond that,
        relative: and which part of the result.
        follows: whether the units count as many times as the result is large, where that is more than one.
        meant: the function on float64, with what it is outside of its domain, given the scale.
        logarithmic: whether the page draws it over sizes.
        shifts: whether a row may be shifted: large numbers that lie close together are more than float64 tells apart.
    """

    call: Call
    points: Units
    domain: str
    outside: str = ""
    units: float = 1.5
    absolute: float = 0.0
    relative: float = 0.0
    follows: bool = False
    meant: Callable[[torch.Tensor, int], torch.Tensor] | None = None
    logarithmic: bool = False
    shifts: bool = False

    def wanted(self, units: torch.Tensor, scale: int) -> torch.Tensor:
        """Return what the function should be."""
        if self.shifts:
            units = units - units.amax(1, keepdim=True)
        numbers = units.double() / scale
        return self.meant(numbers, scale) if self.meant else self.call(numbers)

    def allowed(self, wanted: torch.Tensor, scale: int) -> torch.Tensor:
        """Return how far each result may be off."""
        size = wanted.abs()
        units = self.units * size.clamp(min=1) if self.follows else self.units
        return units / scale + self.absolute + (self.relative + 2.0**-50) * size

    @property
    def bound(self) -> str:
        """How far results may be off, as the page says it."""
        parts = [f"{self.units:g} units" + (" times max(1, result)" if self.follows else "")]
        parts += [f"{self.absolute:g}"] if self.absolute else []
        parts += [f"2^{round(math.log2(self.relative))} of the result"] if self.relative else []
        return " + ".join(parts)


# --- numbers in units -------------------------------------------------------------------------------------------


def between(low: float, high: float, count: int = POINTS) -> Units:
    """Return evenly spaced numbers, both ends, and those next to 0."""

    def make(scale: int) -> torch.Tensor:
        first, last = math.ceil(low * scale), math.floor(high * scale)
        even = torch.linspace(first, last, count, dtype=torch.float64).round().long()
        near = torch.arange(-20, 21)
        return torch.unique(torch.cat([even, near[(near >= first) & (near <= last)]]).clamp(first, last))

    return make


def sizes(low: float | None = None, high: float | None = None, signed: bool = False, count: int = POINTS) -> Units:
    """Return numbers of all sizes, and those around the powers of two; from one unit up if no bounds are given."""

    def make(scale: int) -> torch.Tensor:
        first = 1 if low is None else max(1, math.ceil(low * scale))
        last = LIMIT - 1 if high is None else min(LIMIT - 1, math.floor(high * scale))
        bits = math.log2(first), math.log2(last)
        even = [int(2.0 ** (bits[0] + (bits[1] - bits[0]) * place / count)) for place in range(count + 1)]
        powers = [(1 << power) + step for power in range(62) for step in (-1, 0, 1)]
        found = torch.tensor(sorted({number for number in (*even, *powers, last) if first <= number <= last}))
        return torch.cat([-found.flip(0), found]) if signed else found

    return make


def of_exp(scale: int) -> torch.Tensor:
    """Return numbers from below where e^x is nothing to beyond where it stays as it is."""
    first, last = edges(scale, scale)
    border = [edge + step for edge in (first, last) for step in range(-3, 4)]
    return torch.unique(torch.cat([between(first / scale - 3, last / scale + 3)(scale), torch.tensor(border)]))


def rows(*shape: int, spread: float = 3.0) -> Units:
    """Return random numbers; the first row is the same number all over, the second one has one that is far larger."""

    def make(scale: int) -> torch.Tensor:
        numbers = torch.randn(shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64) * spread
        numbers[0] = spread
        if len(shape) > 1:
            numbers[1, 0] = 20 * spread
        return (numbers * scale).round().long()

    return make


# --- what functions are outside of their domain -----------------------------------------------------------------


def exp_meant(x: torch.Tensor, scale: int) -> torch.Tensor:
    """e^x, 0 where it is less than half a unit, and the largest one beyond the domain."""
    first, last = edges(scale, scale)
    return torch.where(x * scale < first, 0.0, x.clamp(max=last / scale).exp())


def log_meant(x: torch.Tensor, scale: int) -> torch.Tensor:
    """log(x), that of one unit for what is not positive."""
    return x.clamp(min=1 / scale).log()


def of_positive(function: Call) -> Callable[[torch.Tensor, int], torch.Tensor]:
    """Give 0 for what is not positive."""
    return lambda x, scale: torch.where(x > 0, function(x.clamp(min=1 / scale)), 0.0)


def _power(exponent: Any) -> Call:
    return lambda x: x**exponent


def _norm(order: float) -> Call:
    return lambda x: torch.linalg.vector_norm(x, order, 1)


ALL = "all numbers"
POSITIVE = "x > 0, from one unit to 2^62 units"
SQUARES = "sum of squares below 2^62 units of a product (a norm of 2^15 with 16 bits, 2 * 10^6 with 3 decimals)"
FITS = "powers below 2^62 units of a product"
FUNCTIONS: dict[str, Function] = {
    "exp": Function(torch.exp, of_exp, "up to 27.0 with 16 bits, 31.2 with 3 decimals (a result of 55 bits)",
                    "0 where it is less than half a unit; beyond, the largest one", 1.5, relative=2.0**-16,
                    meant=exp_meant),
    "exp2": Function(torch.exp2, between(-20, 20), "up to 39 with 16 bits, 45 with 3 decimals", "as exp",
                     3, relative=2.0**-16, follows=True),
    "expm1": Function(torch.expm1, between(-20, 15), "as exp", "as exp", 1.5, 1e-5, 2.0**-16),
    "log": Function(torch.log, sizes(), POSITIVE, "log of one unit", 1.6, 2e-5, meant=log_meant, logarithmic=True),
    "log2": Function(torch.log2, sizes(), POSITIVE, "log2 of one unit", 4, 3e-5, 2.0**-16, logarithmic=True),
    "log10": Function(torch.log10, sizes(), POSITIVE, "log10 of one unit", 2, 1e-5, 2.0**-16, logarithmic=True),
    "log1p": Function(torch.log1p, sizes(high=2.0**20), "x > -1", "log of one unit", 1.6, 2e-5, logarithmic=True),
    "sqrt": Function(torch.sqrt, sizes(), POSITIVE, "0", 1.5, relative=2.0**-16, meant=of_positive(torch.sqrt),
                     logarithmic=True),
    "rsqrt": Function(torch.rsqrt, sizes(), POSITIVE, "0", 1.5, relative=2.0**-16, meant=of_positive(torch.rsqrt),
                      logarithmic=True),
    "reciprocal": Function(torch.reciprocal, sizes(signed=True), "all but 0", "0", 1.5, relative=2.0**-16,
                           logarithmic=True),
    "x ** 3": Function(_power(3), between(-20, 20), FITS, "wraps around", 2, follows=True),
    "x ** -2": Function(_power(-2), between(0.25, 200), "as reciprocal", "0 at 0", 4, relative=2.0**-15, follows=True),
    "x ** 0.5": Function(_power(0.5), sizes(), POSITIVE, "0", 1.5, relative=2.0**-16, logarithmic=True),
    "x ** -0.5": Function(_power(-0.5), sizes(), POSITIVE, "0", 1.5, relative=2.0**-16, logarithmic=True),
    "x ** 1.5": Function(_power(1.5), between(0.01, 50), f"x > 0, {FITS}", "0", 2, relative=2.0**-16, follows=True),
    "x ** 0.3": Function(_power(0.3), sizes(0.01, 1e6), "x > 0", "0", 3, 2e-5, 2.0**-15, follows=True,
                         logarithmic=True),
    "x ** -0.7": Function(_power(-0.7), sizes(0.01, 1e6), "x > 0", "the largest result of exp", 3, 2e-5, 2.0**-15,
                          follows=True, logarithmic=True),
    "2 ** x": Function(lambda x: 2**x, between(-20, 20), "as exp2", "as exp", 3, relative=2.0**-16, follows=True),
    "sigmoid": Function(torch.sigmoid, between(-30, 30), ALL, "", 1.5, 1e-4),
    "tanh": Function(torch.tanh, between(-20, 20), ALL, "", 1.5, 1.5e-4),
    "erf": Function(torch.erf, between(-8, 8), ALL, "", 1.5, 1.5e-4),
    "erfc": Function(torch.erfc, between(-8, 8), ALL, "", 1.5, 1.5e-4),
    "gelu": Function(F.gelu, between(-20, 20), ALL, "", 1.5, 1e-4),
    "gelu (tanh)": Function(lambda x: F.gelu(x, approximate="tanh"), between(-20, 20), ALL, "", 1.5, 1e-4),
    "silu": Function(F.silu, between(-30, 30), ALL, "", 1.5, 1e-4),
    "mish": Function(F.mish, between(-30, 30), ALL, "", 1.5, 1.5e-4),
    "softplus": Function(F.softplus, between(-30, 30), ALL, "", 1.5, 1.5e-4),
    "softplus (beta 3)": Function(lambda x: F.softplus(x, beta=3), between(-10, 10), ALL, "", 2, 1e-4),
    "logsigmoid": Function(F.logsigmoid, between(-30, 30), ALL, "", 1.5, 1.5e-4),
    "sin": Function(torch.sin, between(-100, 100), "below 2^44 units", "an angle that is a little off", 1.5, 4e-5),
    "cos": Function(torch.cos, between(-100, 100), "below 2^44 units", "an angle that is a little off", 1.5, 4e-5),
    "tan": Function(torch.tan, between(-1.3, 1.3), "where cos(x) is far from 0", "sin(x) / cos(x), of what these are",
                    20, 1e-3),
    "sinh": Function(torch.sinh, between(-12, 12), "as exp", "as exp", 2, 1e-5, 2.0**-16),
    "cosh": Function(torch.cosh, between(-12, 12), "as exp", "as exp", 2, 1e-5, 2.0**-16),
    "softmax": Function(lambda x: x.softmax(1), rows(40, 10), ALL, "", 1.5, 1e-4, shifts=True),
    "softmax (100)": Function(lambda x: x.softmax(1), rows(6, 100), ALL, "", 1.5, 2e-5, shifts=True),
    "log_softmax": Function(lambda x: x.log_softmax(1), rows(40, 10), ALL, "", 1.5, 5e-5, shifts=True),
    "log_softmax (100)": Function(lambda x: x.log_softmax(1), rows(6, 100), ALL, "", 1.5, 3e-5, shifts=True),
    "logsumexp": Function(lambda x: x.logsumexp(1), rows(60, 10), ALL, "", 1.5, 2e-5),
    "var": Function(lambda x: x.var(1), rows(60, 10), SQUARES, "wraps around", 4),
    "std": Function(lambda x: x.std(1), rows(60, 10), SQUARES, "wraps around", 2, relative=2.0**-16),
    "norm of order 0": Function(_norm(0), rows(60, 10), ALL, "", 0),
    "norm of order 1": Function(_norm(1), rows(60, 10), ALL, "", 0),
    "norm of order 2": Function(_norm(2), rows(60, 10), SQUARES, "wraps around", 1.5, relative=2.0**-16),
    "norm of order 3": Function(_norm(3), rows(60, 10, spread=1.0), FITS, "wraps around", 5, relative=2.0**-15,
                                follows=True),
    "norm of order inf": Function(_norm(math.inf), rows(60, 10), ALL, "", 0),
    "norm of order -inf": Function(_norm(-math.inf), rows(60, 10), ALL, "", 0),
}  # fmt: skip


# --- running them -----------------------------------------------------------------------------------------------

FORMATS = {"16 bits": (2, 16), "3 decimals": (10, 3), "6 decimals": (10, 6), "24 bits": (2, 24)}


def encoded(units: torch.Tensor, form: tuple[int, int], parties: Any = (), provider: Any = None) -> Any:
    """Return whole numbers as a tensor of a format, shared if there are parties."""
    base, precision = form
    made: Any = torch.zeros(units.shape).fix_precision(base=base, precision_fractional=precision)
    made.child.child = units.clone()
    return made.share(*parties, crypto_provider=provider) if parties else made


def units_of(result: Any) -> torch.Tensor:
    """Return the whole numbers of a result."""
    fetched = result.get() if result.child.is_shared else result
    whole: torch.Tensor = fetched.child.child
    return whole


def numbers_of(result: Any) -> torch.Tensor:
    """Return the numbers of a result."""
    scale = result.child.scale
    return units_of(result).double() / scale


def distances(
    function: Function, units: torch.Tensor, form: tuple[int, int], parties: Any, provider: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return how far the results are off, and how far they may be."""
    scale = form[0] ** form[1]
    wanted = function.wanted(units, scale)
    found = numbers_of(function.call(encoded(units, form, parties, provider)))
    assert found.shape == wanted.shape
    return (found - wanted).abs(), function.allowed(wanted, scale)
