"""Householder's reflections of private matrices: whole columns at once, one reflection after the other."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import torch

from syft.mpc.protocols.arithmetic import multiply, square
from syft.mpc.protocols.comparison import negative
from syft.mpc.protocols.lookup import polynomial
from syft.mpc.protocols.matrices import UNIT, brought, matmul
from syft.mpc.protocols.normalized_functions import kind_of
from syft.mpc.protocols.thresholds import by_level, reached
from syft.mpc.protocols.truncation import truncate
from syft.mpc.ring import arithmetic
from syft.mpc.ring.piecewise_fit import fit, whole_numbers
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.protocol_registry import protocol

# Fractional bits of matrices whose columns have norm 1 at most, and of vectors.
POINT = 30
ONE = 1 << POINT
# Correct bits of values from tables; Newton's iteration doubles them.
ROUGH = 20
# Tables have 64 pieces up to the end of their interval, whose upper half or more is used, and polynomials of degree 3,
# and look at 14 bits within each piece.
PIECES = 64
DEGREE = 3
INNER = 14
# The square of a norm has up to 62 bits: sizes from [1, 4) to [4^30, 4^31).
SIZES = 31


@functools.lru_cache(maxsize=4)
def _table(name: str, end: float) -> tuple[torch.Tensor, int, int]:
    """Return the table of a function from a quarter of `end` on; how many bits it reads; and its shift."""
    numbers = np.arange(PIECES // 4, PIECES + 1)
    found = np.zeros((PIECES, DEGREE + 1))
    found[numbers % PIECES] = fit(kind_of(name).mantissa, numbers * (end / PIECES), end / PIECES, DEGREE)
    return whole_numbers(found, 1 << ROUGH, INNER)


async def _inverse_roots(party: Party, y: torch.Tensor) -> torch.Tensor:
    """Return 1 / sqrt(y), with 30 bits, for y in [1/4, 1) with 62 bits.

    A table gives 18 right bits; w (3 - y w^2) / 2 all of them. Rounds: 9.
    """
    low = 2 * UNIT - 6
    table, inner, shift = _table("rsqrt", 1.0)
    w, short = await party.together(
        polynomial(party, y, table, low, low - inner, shift), truncate(party, y, 1 << (2 * UNIT - POINT))
    )
    product = await multiply(party, short, await square(party, w, 1 << (2 * ROUGH - POINT)), divisor=ONE)
    rest = 3 * ONE - product if party.first else -product
    return await multiply(party, w, rest, divisor=1 << (ROUGH + 1))


async def reciprocals(party: Party, y: torch.Tensor, end: int = 1) -> torch.Tensor:
    """Return 1 / y, with 30 bits, for y in [end / 4, end] with as many; end is 1 or 2. Rounds: 7."""
    low = POINT + end.bit_length() - 7
    table, inner, shift = _table("reciprocal", float(end))
    w = await polynomial(party, y, table, low, low - inner, shift)
    product = await multiply(party, y, w, divisor=1 << ROUGH)
    rest = 2 * ONE - product if party.first else -product
    return await multiply(party, w, rest, divisor=1 << ROUGH)


@dataclasses.dataclass(frozen=True, slots=True)
class Reflection:
    """I - b v^T, and the size of the column that it was made from.

    Attributes:
        first: the first row that it changes.
        v: a vector; 0 if the column was 0, so that nothing changes.
        b: v over half of its square.
        found: which powers of four, from 1 to 4^30 times 2^-60, the square of the column's norm reaches.
    """

    first: int
    v: torch.Tensor
    b: torch.Tensor
    found: torch.Tensor

    async def apply(self, party: Party, a: torch.Tensor) -> torch.Tensor:
        """Reflect the columns of a matrix. Rounds: 4."""
        across = await matmul(party, self.v, a[self.first :], ONE)
        return await self._less(party, a, across)

    async def _less(self, party: Party, a: torch.Tensor, across: torch.Tensor) -> torch.Tensor:
        change = await multiply(party, self.b.unsqueeze(1), across.unsqueeze(0), divisor=ONE)
        return torch.cat([a[: self.first], arithmetic.sub(a[self.first :], change)])


async def _directed(party: Party, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return x over its norm; 1 or -1, the sign of its first element, or 0 if x is 0; and the size of its square.

    Rounds: 20.
    """

    async def sized() -> tuple[torch.Tensor, torch.Tensor]:
        norm = (await square(party, x)).sum().view(1)
        return norm, await reached(party, norm, tuple(4**size for size in range(SIZES)))

    (norm, found), below = await party.together(sized(), negative(party, x[:1]))
    powers = [0] + [1 << (SIZES - size) for size in range(1, SIZES + 1)]
    there = by_level(found, [0] + [1] * SIZES, party)
    brought_up, y, both = await party.together(
        multiply(party, x, by_level(found, powers, party)),
        multiply(party, norm, by_level(found, [power * power for power in powers], party)),
        multiply(party, there, below),
    )
    w = await _inverse_roots(party, y)
    u = await multiply(party, brought_up, w, divisor=1 << UNIT)
    return u, arithmetic.sub(there, 2 * both), found


async def reflect(party: Party, a: torch.Tensor, column: int) -> tuple[torch.Tensor, Reflection]:
    """Make a column zero below the diagonal by a reflection of all columns from it on.

    1. u = x / |x| for the column x from the diagonal down, and s the sign of its first element (see `_directed`).
    2. v = u + s e_1, and b = v / (1 + |u_1|): the reflection is I - b v^T, and x becomes -s |x| e_1.
    3. Subtract b (v^T a).

    Rounds: 32.
    """
    u, sign, found = await _directed(party, a[column:, column].contiguous())
    size = await multiply(party, sign, u[:1])
    v = torch.cat([arithmetic.add(u[:1], sign << POINT), u[1:]])
    rest = a[:, column:].contiguous()
    beta, across = await party.together(
        reciprocals(party, size + ONE if party.first else size, 2), matmul(party, v, rest[column:], ONE)
    )
    made = Reflection(column, v, await multiply(party, v, beta, divisor=ONE), found)
    reflected = await made._less(party, rest, across)
    reflected[column + 1 :, 0] = 0
    return torch.cat([a[:, :column], reflected], 1), made


async def triangular(party: Party, a: torch.Tensor, columns: int) -> tuple[torch.Tensor, list[Reflection]]:
    """Reflect until the first columns of a matrix are zero below the diagonal; all have norms of 1 at most, 30 bits."""
    made = []
    for column in range(min(columns, a.shape[0] - 1)):
        a, reflection = await reflect(party, a, column)
        made.append(reflection)
    return a, made


MODES = ("reduced", "complete", "r")


def _shapes(a: torch.Tensor, scale: int = 1, mode: str = "reduced") -> Any:
    if a.dim() != 2 or mode not in MODES:
        raise ValueError(
            f"qr() takes a matrix and a mode of {', '.join(MODES)}, got {a.dim()} dimensions and {mode!r}."
        )
    if type(scale) is not int or not 1 <= scale <= 1 << 40:
        raise ValueError(f"The scale of qr() must be an integer from 1 to 2^40, got {scale!r}.")
    rows, columns = a.shape
    inner = rows if mode == "complete" else min(rows, columns)
    return (inner, columns) if mode == "r" else [(rows, inner), (inner, columns)]


async def _orthogonal(party: Party, made: list[Reflection], rows: int, columns: int, scale: int) -> torch.Tensor:
    """Return the first columns of the product of reflections, with a scale. Rounds: 4 for each, and 1."""
    q = torch.eye(rows, columns, dtype=torch.int64) * (ONE if party.first else 0)
    for reflection in reversed(made):
        q = await reflection.apply(party, q)
    spared = max(0, scale.bit_length() - POINT)
    return await truncate(party, q * (scale >> spared), 1 << (POINT - spared))


@protocol("qr", shape=_shapes, rounds="12, and 36 for each column (32 in mode r)",
          bytes="80 for each column, and 25000 a column",
          error="4 units and 2^-24 for each column, of 1 in Q and of the norm in R")  # fmt: skip
async def qr(party: Party, a: torch.Tensor, scale: int = 1, mode: str = "reduced") -> Any:
    """Write a private matrix of numbers with a scale as a product Q R, Q orthogonal and R upper triangular.

    1. Bring it to a norm in [1/2, 1) (see `brought`).
    2. Make one column after the other zero below the diagonal (see `reflect`); the last row needs no reflection.
    3. R times the power of two of step 1. Q is the product of the reflections, the last one first.

    The signs are those that numpy gives: a diagonal element of R has the opposite sign of the first element of the
    column that it was reflected from.

    Sees: masked values. Domain: the Frobenius norm below 2^31 units.
    """
    shapes = _shapes(a, scale, mode)
    rows, columns = shapes if mode == "r" else shapes[0]
    if a.numel() == 0:
        empty = [torch.zeros(shape, dtype=torch.int64) for shape in ([shapes] if mode == "r" else shapes)]
        if mode == "complete" and party.first:
            empty[0] = torch.eye(rows, dtype=torch.int64) * scale
        return empty[0] if mode == "r" else tuple(empty)
    brought_up, found = await brought(party, a)
    r, made = await triangular(party, await truncate(party, brought_up, 1 << (UNIT - POINT)), a.shape[1])
    inner = rows if mode == "r" else columns
    power = by_level(found, [1 << m for m in range(UNIT + 1)], party)
    large = multiply(party, r[:inner].contiguous(), power, divisor=ONE)
    if mode == "r":
        return await large
    return tuple(await party.together(_orthogonal(party, made, rows, columns, scale), large))
