"""Logarithm, square root and reciprocals of private numbers: normalize them, then read a table.

The size of a number is found by comparisons with the powers of four. Multiplied by a power of four it lies in
[2^60, 2^62), where its six top bits select the piece of a table, and a polynomial gives the value. A function of the
size alone (a power, a summand) is a sum of the results of the comparisons times public numbers.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from syft.exceptions import ProtocolError
from syft.mpc.protocols.arithmetic import multiply
from syft.mpc.protocols.chunking import in_blocks
from syft.mpc.protocols.exponential import check_scales
from syft.mpc.protocols.lookup import polynomial
from syft.mpc.protocols.thresholds import by_level, reached
from syft.mpc.ring import arithmetic
from syft.mpc.ring.piecewise_fit import coarser, fit, whole_numbers
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.protocol_registry import protocol

# Sizes: from [1, 4) to [4^30, 4^31), in units.
SIZES = 31
TOP = 2 * (SIZES - 1)
# Pieces around 16, 17, ... 64 times 2^56; the last one is at index 0. Numbers without a size are moved outside of them.
LOW = TOP - 4
PIECES = 64
NOTHING = 4
DEGREE = 3
# Bits of a number that are used within a piece, and the largest and smallest number of fractional bits of the table.
INNER = 14
MANTISSA, LEAST = 20, 17
# Bits of a product before it is rescaled.
ROOM = 60


@dataclasses.dataclass(frozen=True, slots=True)
class NormalizedFunction:
    """A function of positive numbers.

    Attributes:
        mantissa: the function on [1, 4), by numpy.
        power: the function of 4^n is 4^(power n) times as large; None if it is n log(4) more.
        signed: whether it is defined for negative numbers too, as -f(-x).
    """

    mantissa: Callable[[Any], Any]
    power: float | None
    signed: bool = False


KINDS = {
    "log": NormalizedFunction(np.log, None),
    "sqrt": NormalizedFunction(np.sqrt, 0.5),
    "rsqrt": NormalizedFunction(lambda y: 1 / np.sqrt(y), -0.5),
    "reciprocal": NormalizedFunction(lambda y: 1 / y, -1.0, signed=True),
}


def kind_of(name: str) -> NormalizedFunction:
    """Return one of the functions."""
    if type(name) is not str or name not in KINDS:
        raise ProtocolError(f"There is no function {str(name)[:20]!r}, only {', '.join(KINDS)}.")
    return KINDS[name]


@functools.lru_cache(maxsize=64)
def table_of(name: str, scale: int) -> tuple[torch.Tensor, int, int, int]:
    """Return the table of a function on [1, 4) in units of 1/scale, and the `drop`, `shift` and `times` of it."""
    step = 2.0 ** (LOW - TOP)
    numbers = np.arange(16, PIECES + 1)
    found = np.zeros((PIECES, DEGREE + 1))
    found[numbers % PIECES] = fit(kind_of(name).mantissa, numbers * step, step, DEGREE)
    times = coarser(scale)
    coefficients, inner, shift = whole_numbers(found, scale / times, INNER)
    return coefficients, LOW - inner, shift, times


@dataclasses.dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes that numbers may have, and the levels that separate them.

    Attributes:
        levels: the numbers to compare with, from the lowest on.
        sizes: the size of numbers that reach 0, 1, 2, ... levels; None for no size.
        signs: 1 or -1 of numbers that reach 0, 1, 2, ... levels.
    """

    levels: tuple[int, ...]
    sizes: tuple[int | None, ...]
    signs: tuple[int, ...]

    def values(self, of: Callable[[int], int], nothing: int = 0) -> list[int]:
        """Return a function of the sizes, with the sign of the numbers, level by level."""
        return [nothing if size is None else sign * of(size) for size, sign in zip(self.sizes, self.signs, strict=True)]


@functools.lru_cache(maxsize=64)
def sizes_between(first: int, last: int, signed: bool, known: bool) -> Sizes:
    """Return the sizes from first to last; `known` if every number has one of them."""
    positive = [4**size for size in range(first, last + 1)]
    sizes: list[int | None] = [None, *range(first, last + 1)]
    if known:
        return Sizes(tuple(positive[1:]), tuple(sizes[1:]), (1,) * len(positive))
    if not signed:
        return Sizes(tuple(positive), tuple(sizes), (1,) * len(sizes))
    negative = [1 - level for level in reversed(positive)]
    below = list(reversed(sizes[1:]))
    return Sizes((*negative, *positive), (*below, *sizes), (-1,) * len(below) + (1,) * len(sizes))


async def bring(party: Party, x: torch.Tensor, sizes: Sizes) -> tuple[torch.Tensor, torch.Tensor]:
    """Normalize numbers (in one dimension) to [2^60, 2^62); returns them, and the levels they reach."""
    found = await reached(party, x, sizes.levels)
    factor = by_level(found, sizes.values(lambda size: 4 ** (SIZES - 1 - size)), party)
    brought = await multiply(party, x, factor)
    if None in sizes.sizes:
        where = [NOTHING << LOW if size is None else 0 for size in sizes.sizes]
        brought = arithmetic.add(brought, by_level(found, where, party))
    return brought, found


@dataclasses.dataclass(frozen=True, slots=True)
class Factor:
    """A factor of the mantissa, level by level (0 for other sizes), and the divisor of the product."""

    values: list[int]
    divisor: int


def _factors(kind: NormalizedFunction, sizes: Sizes, scale: int, out: int) -> tuple[int, list[Factor]]:
    """Return the fractional bits of the mantissa, and its factors: small and large ones."""
    power = kind.power or 0.0
    exact = {size: out * 4.0 ** (power * size) / scale**power for size in sizes.sizes if size is not None}
    most = math.ceil(math.log2(max(exact.values())))
    bits = min(MANTISSA, ROOM - 1 - most) if ROOM - 1 - most >= LEAST else MANTISSA
    limit = ROOM - 1 - bits
    spare = max(0, min(16, limit - most))

    def small(size: int) -> int:
        return round(exact[size] * 2**spare) if exact[size] * 2**spare <= 2**limit else 0

    def large(size: int) -> int:
        return 0 if small(size) else min(round(exact[size] / 2**bits), 1 << (ROOM + 1 - bits))

    factors = [Factor(sizes.values(small), 1 << (bits + spare))]
    if most + spare > limit:
        factors.append(Factor(sizes.values(large), 1))
    return bits, factors


async def root_of(
    party: Party, x: torch.Tensor, name: str, sizes: Sizes, scale: int, out: int, nothing: int | None = None
) -> torch.Tensor:
    """Compute a function of elements in one dimension; see `root`."""
    kind = kind_of(name)
    y, found = await bring(party, x, sizes)
    if kind.power is None:
        table, *options = table_of(name, out)
        mantissa = await polynomial(party, y, table, LOW, *options)
        first = next(size for size in sizes.sizes if size is not None)

        def summand(size: int) -> int:
            return round(out * (size * math.log(4) - math.log(scale)))

        least = summand(first) if nothing is None else nothing
        return arithmetic.add(mantissa, by_level(found, sizes.values(summand, least), party))
    bits, factors = _factors(kind, sizes, scale, out)
    table, *options = table_of(name, 1 << bits)
    mantissa = await polynomial(party, y, table, LOW, *options)
    parts = [multiply(party, mantissa, by_level(found, f.values, party), divisor=f.divisor) for f in factors]
    made: list[torch.Tensor] = await party.together(*parts)
    return functools.reduce(arithmetic.add, made)


@protocol("root", rounds="13 (11 for log)", bytes="480 (840 for reciprocal)",
          error="1 unit in the last place and 2^-16 of the result; 10^-5 where units are finer")  # fmt: skip
async def root(
    party: Party, x: torch.Tensor, kind: str, scale: int, out: int | None = None, nothing: int | None = None
) -> torch.Tensor:
    """Compute log, sqrt, rsqrt or reciprocal of numbers with a scale.

    1. Compare x with all powers of four (and their negatives, for the reciprocal), side by side (see `reached`).
    2. Multiply by a power of four: y in [2^60, 2^62).
    3. Read the function of y from a table (see `lookup.polynomial`).
    4. Multiply by the factor of the size (for the logarithm: add it).

    For numbers that are not positive, log gives `nothing`, by default the logarithm of one unit, and the other
    functions give 0 (reciprocal: for 0 only).

    Args:
        party: this party.
        x: its share.
        kind: the function.
        scale: the scale of x.
        out: the scale of the result; by default that of x.
        nothing: the result of log for numbers that are not positive, in units.

    Sees: masked values. Rounds: 11 for log, else 13. Dealt: about 1.2 kB an element (1.7 kB for reciprocal).
    """
    sizes = sizes_between(0, SIZES - 1, kind_of(kind).signed, False)
    made = scale if out is None else out
    check_scales(scale, made)

    async def block(part: torch.Tensor) -> torch.Tensor:
        return await root_of(party, part, kind, sizes, scale, made, nothing)

    return await in_blocks(block, 2 * len(sizes.levels), x)
