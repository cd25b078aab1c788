"""The inverse of a private matrix, in a number of rounds that does not depend on its size.

For a matrix E with eigenvalues in [0, 1) the inverse of I - E is (I + E)(I + E^2)(I + E^4)...: each factor doubles the
number of terms of the geometric series, and the next power and the next product are computed in the same two rounds.
Newton's iteration removes rounding errors. Its residuals are exact: sums of products of integers modulo 2^64 are exact
as long as the sums have room, however large their terms are.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from syft.mpc.protocols.arithmetic import multiply, square
from syft.mpc.protocols.thresholds import by_level, reached
from syft.mpc.protocols.truncation import truncate
from syft.mpc.ring import arithmetic
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.protocol_registry import protocol

# Fractional bits: of matrices of norm 1, of powers, of the inverse after it has grown, and at its end.
UNIT = 31
FINE = 30
COARSE = 18
LAST = 30
# After 24 factors (1 - 2^-22)^(2^24) = e^-4 is left of a singular value of 2^-11. Two of them let the inverse double.
LOST = (0, 1) * 12
NEWTON_STEPS = 3
# Bits of the public factors of the inverse, and of the two pieces that it is split into.
FACTOR = 40
PIECE = 21
HALF = UNIT // 2


async def matmul(party: Party, x: torch.Tensor, y: torch.Tensor, divisor: int = 1) -> torch.Tensor:
    """Multiply private matrices, and divide by a public number."""
    return await multiply(party, x, y, divisor=divisor, operation="matmul")


def identity_less(party: Party, x: torch.Tensor, bits: int) -> torch.Tensor:
    """Return I - x, of matrices with a number of fractional bits."""
    if not party.first:
        return -x
    return torch.eye(x.shape[-1], dtype=torch.int64) * (1 << bits) - x


async def brought(party: Party, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Multiply a matrix by a private power of two, so that its Frobenius norm lies in [1/2, 1), with 31 bits.

    1. Add up the squares of all elements: N, which must have room in 62 bits.
    2. Compare N with the powers of four, side by side: 4^(m - 1) <= N < 4^m.
    3. Multiply by 2^(31 - m), which is a sum of the results of step 2 times public numbers.

    Returns:
        The matrix, or the matrices of a batch, and the levels of step 2 (see `reached`): m of 31.

    Sees: masked values. Rounds: 9.
    """
    norm = (await square(party, a)).sum((-2, -1)).reshape(-1)
    found = await reached(party, norm, tuple(4**level for level in range(UNIT)))
    power = by_level(found, [1 << (UNIT - m) for m in range(UNIT + 1)], party)
    return await multiply(party, a, power.view(*a.shape[:-2], 1, 1)), found


async def series(party: Party, e: torch.Tensor, x: torch.Tensor, bits: int, lost: tuple[int, ...]) -> torch.Tensor:
    """Return (I + E)(I + E^2)(I + E^4)... x. Rounds: 2 for each factor.

    E has eigenvalues in [0, 1), and up to 30 fractional bits. x grows, and should stay below 2^30, so it loses some
    fractional bits with each factor; early rounding errors grow with it, so bits are dropped as late as possible.
    """
    one = torch.eye(e.shape[-1], dtype=torch.int64) * (1 << bits if party.first else 0)
    for number, fewer in enumerate(lost, 1):
        product = matmul(party, arithmetic.add(e, one), x, 1 << (bits + fewer))
        if number == len(lost):
            x = await product
        else:
            x, e = await party.together(product, matmul(party, e, e, 1 << bits))
    return x


async def newton(party: Party, a: torch.Tensor, x: torch.Tensor, bits: tuple[int, int, int], finer: int = 0) -> Any:
    """Return x + R x and R, for R = I - x a: doubles the correct bits of the inverse x of a. Rounds: 4.

    `bits` are the fractional bits of a, of x and of R; the result has `finer` more than x.
    """
    of_a, of_x, of_rest = bits
    rest = identity_less(party, await matmul(party, x, a, 1 << (of_a + of_x - of_rest)), of_rest)
    more = await matmul(party, rest, x, 1 << (of_rest - finer))
    return arithmetic.add(x << finer, more), rest


async def rescaled(party: Party, x: torch.Tensor, found: torch.Tensor, scale: int) -> torch.Tensor:
    """Return x scale^2 / 2^m in units, for x with 30 bits and up to 12 before the point, and m levels found.

    x is split into two pieces, and the factors into those for small and for large m, so that factors have 25 bits or
    more (in 40), and all products have room; they are computed at the same time.

    Rounds: 3. Error: 4 units, and 2^-25 of the result.
    """
    square_of_scale = scale * scale
    spare = FACTOR - (square_of_scale.bit_length() - 1) - (square_of_scale & (square_of_scale - 1) != 0)
    high = await truncate(party, x, 1 << PIECE)
    low = arithmetic.sub(x, high << PIECE)
    parts = []
    for small in (True, False):
        finer = spare if small else spare + HALF
        factors = [round(square_of_scale * 2.0 ** (finer - m)) if (m < HALF) is small else 0 for m in range(UNIT + 1)]
        factor = by_level(found, factors, party).view(*x.shape[:-2], 1, 1)
        parts += [_shifted(party, low, factor, LAST + finer), _shifted(party, high, factor, LAST + finer - PIECE)]
    made: list[torch.Tensor] = await party.together(*parts)
    return functools.reduce(arithmetic.add, made)


async def _shifted(party: Party, x: torch.Tensor, factor: torch.Tensor, bits: int) -> torch.Tensor:
    """Return x factor / 2^bits, for a product of up to 61 bits; a result that is 0 needs no product."""
    if bits > PIECE + FACTOR:
        return torch.zeros_like(x)
    product: torch.Tensor = await multiply(party, x, factor, divisor=1 << max(bits, 0))
    return product << max(-bits, 0)


def _square_shape(a: torch.Tensor, scale: int = 1) -> torch.Size:
    if a.dim() < 2 or a.shape[-2] != a.shape[-1]:
        raise ValueError(f"inverse() requires a square matrix, got shape {tuple(a.shape)}.")
    if type(scale) is not int or not 1 <= scale <= 1 << 40:
        raise ValueError(f"The scale of inverse() must be an integer from 1 to 2^40, got {scale!r}.")
    return a.shape


@protocol("inverse", shape=_square_shape, rounds="74", bytes="1400, and 23000 for up to 64 matrices",
          error="2^-22 of the norm of the inverse, and 5 units in the last place")  # fmt: skip
async def inverse(party: Party, a: torch.Tensor, scale: int = 1) -> torch.Tensor:
    """Invert a square private matrix, or each of a batch, of numbers with a scale.

    1. Bring it to a norm in [1/2, 1) (see `brought`).
    2. E = I - A^T A has eigenvalues in [0, 1), and A^-1 = (I + E)(I + E^2)(I + E^4)... A^T: 24 factors (see `series`).
    3. Three steps of Newton's iteration; the last one gives 30 bits behind the point.
    4. Divide by the power of two (see `rescaled`).

    Works for condition numbers (Frobenius norm over smallest singular value) up to 2^11. A matrix that is nearer to
    singular than that gives a result that is meaningless in that direction.

    Sees: masked values. Rounds: 74, whatever the size. Domain: the Frobenius norm below 2^31 units.
    """
    _square_shape(a, scale)
    if a.numel() == 0:
        return a.clone()
    a, found = await brought(party, a)
    transposed = a.transpose(-2, -1).contiguous()
    gram, x = await party.together(
        matmul(party, transposed, a, 1 << (2 * UNIT - FINE)), truncate(party, transposed, 1 << (UNIT - FINE))
    )
    x = await series(party, identity_less(party, gram, FINE), x, FINE, LOST)
    for step in range(NEWTON_STEPS):
        finer = LAST - COARSE if step == NEWTON_STEPS - 1 else 0
        x, _ = await newton(party, a, x, (UNIT, COARSE, FINE), finer)
    return await rescaled(party, x, found, scale)
