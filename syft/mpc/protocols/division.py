"""Division by a private number: normalize it to [1/4, 1), then invert it by a table and a Newton step."""

from __future__ import annotations

import dataclasses
import functools
import itertools

import torch

from syft.mpc.protocols.arithmetic import multiply
from syft.mpc.protocols.chunking import in_blocks
from syft.mpc.protocols.comparison import negative
from syft.mpc.protocols.lookup import polynomial
from syft.mpc.protocols.normalized_functions import LOW, SIZES, TOP, bring, sizes_between, table_of
from syft.mpc.protocols.thresholds import by_level
from syft.mpc.protocols.truncation import truncate
from syft.mpc.ring import arithmetic
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.protocol_registry import protocol

# Fractions have 30 bits.
POINT = 30
ONE = 1 << POINT
# Fractional bits of an inverse from the table, and of the multiplied one.
ROUGH, FINE = 20, 28
# Numbers held at once for an element, which needs 62 comparisons at the same time (see `in_blocks`).
WEIGHT = 128
# Up to this top bit of the divisor the power of two is small enough to be multiplied by with bits to spare.
SPLIT = 31
MAX_SCALE = 1 << 40
MAX_ODD = 1 << 24
# The largest error of the quotient of integers before the correction.
SLACK = 4
# Dividends have up to 58 bits, and their products one more.
REACH = 59
# Divisions of the remainder: a quotient has 26 correct bits after the first one.
REPEATS = 3
# All sizes that a divisor may have, of either sign.
EVERY = sizes_between(0, SIZES - 1, True, False)


@dataclasses.dataclass(frozen=True, slots=True)
class Divisor:
    """Shares of the sign, the inverse and the size of divisors y; k is even, and 2^k <= |y| < 2^(k + 2).

    Attributes:
        sign: 1 or -1, 0 for 0.
        inverse: 2^(k + 1) / |y|, from a half to two, with 30 fractional bits.
        small: 2^(31 - k), with the sign of y, where k is at most 31, else 0.
        large: 2^(61 - k), with the sign of y, where k is more than 31, else 0.
    """

    sign: torch.Tensor
    inverse: torch.Tensor
    small: torch.Tensor
    large: torch.Tensor


def _small(size: int) -> int:
    return 1 << (SPLIT - 2 * size) if 2 * size <= SPLIT else 0


def _large(size: int) -> int:
    return 1 << (TOP + 1 - 2 * size) if 2 * size > SPLIT else 0


async def _inverse(party: Party, y: torch.Tensor) -> torch.Tensor:
    """Invert y in [2^60, 2^62): 2^61 / y, with 30 fractional bits.

    A table gives it up to 2^-15 of it; w becomes w (2 - y w), once, which squares the error.
    """
    table, *options = table_of("reciprocal", 1 << ROUGH)
    rough, exact = await party.together(
        polynomial(party, y, table, LOW, *options), truncate(party, y, 1 << (TOP - POINT))
    )
    rough = rough << (FINE - ROUGH)
    product = await multiply(party, exact, rough, divisor=1 << FINE)
    rest = 2 * ONE - product if party.first else -product
    return await multiply(party, rough, rest, divisor=1 << (FINE - 1))


async def prepare(party: Party, y: torch.Tensor) -> Divisor:
    """Compute the size, the sign and the inverse of divisors y, in one dimension."""
    brought, found = await bring(party, y, EVERY)
    sign, small, large = (by_level(found, EVERY.values(of), party) for of in (lambda size: 1, _small, _large))
    return Divisor(sign, await _inverse(party, brought), small, large)


async def _pieces(party: Party, x: torch.Tensor, bits: int) -> list[torch.Tensor]:
    """Split numbers into pieces of about `bits` bits, least significant first, in one round."""
    count = -(-REACH // bits)
    higher = await party.together(*[truncate(party, x, 1 << (bits * number)) for number in range(1, count)])
    quotients = [x, *higher]
    return [low - (high << bits) for low, high in itertools.pairwise(quotients)] + [quotients[-1]]


async def _rescaled(party: Party, x: torch.Tensor, factor: torch.Tensor, exponent: int) -> torch.Tensor:
    """Multiply, and divide by 2^exponent, which may be negative."""
    product = await multiply(party, x, factor, divisor=1 << max(exponent, 0))
    return torch.bitwise_left_shift(product, max(-exponent, 0))


async def _apply(party: Party, x: torch.Tensor, divisor: Divisor, scale: int) -> torch.Tensor:
    """Divide x, times the scale; see `divide`."""
    low, high = await _pieces(party, x, POINT)
    low, high = await party.together(
        multiply(party, low, divisor.inverse, divisor=ONE), multiply(party, high, divisor.inverse)
    )
    # x / y = t / 2^(k + 1). The scale's odd part is a factor, its power of two reduces the divisor.
    odd = scale // (scale & -scale)
    spared = (scale & -scale).bit_length() - 1
    width = POINT + 1 - odd.bit_length()
    pieces = await _pieces(party, low + high, width)
    parts = []
    for number, piece in enumerate(pieces):
        moved = spared + number * width
        parts.append(_rescaled(party, piece * odd, divisor.small, SPLIT + 1 - moved))
        parts.append(_rescaled(party, piece * odd, divisor.large, TOP + 2 - moved))
    made: list[torch.Tensor] = await party.together(*parts)
    return functools.reduce(arithmetic.add, made)


def _broadcast(x: torch.Tensor, y: torch.Tensor, scale: int = 1) -> torch.Size:
    if not 1 <= scale <= MAX_SCALE or scale // (scale & -scale) > MAX_ODD:
        raise ValueError(
            f"Division by private numbers needs a scale up to 2^40 with an odd part up to 2^24, got {scale}."
        )
    return arithmetic.broadcast(x.shape, y.shape)


@protocol("divide", shape=_broadcast, rounds="21", bytes="1100",
          error="2^-26 of the quotient, and 8 + 2 / |y| units in the last place; x / 0 gives 0")  # fmt: skip
async def divide(party: Party, x: torch.Tensor, y: torch.Tensor, scale: int = 1) -> torch.Tensor:
    """Divide private numbers by private numbers, times a public scale (that of the quotient).

    1. The size of |y| and its sign, by comparisons with the powers of four and their negatives (see `bring`):
       2^k <= |y| < 2^(k + 2), and b = |y| / 2^(k + 2) in [1/4, 1).
    2. 1 / b from a table, and one step of Newton's iteration (see `_inverse`).
    3. t = x / 2b, and x / y = t / 2^(k + 1), with the sign of y; x and t are split into pieces whose products fit
       into 64 bits.

    Sees: masked values only. Rounds: 21. Bytes: about 1100 an element, most of them for the 62 comparisons of step 1.
    Domain: |x| < 2^58 units, |y| < 2^61 units, the quotient below 2^61 units.
    """

    async def block(dividend: torch.Tensor, divisor: torch.Tensor) -> torch.Tensor:
        return await _apply(party, dividend, await prepare(party, divisor), scale)

    return await in_blocks(block, WEIGHT, *torch.broadcast_tensors(x, y))  # type: ignore[no-untyped-call]


async def _floor(party: Party, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Divide integers in one dimension exactly; see `floor_divide`."""
    divisor = await prepare(party, y)
    quotient, rest = torch.zeros_like(x), x
    for _ in range(REPEATS):
        part = await _apply(party, rest, divisor, 1)
        quotient = arithmetic.add(quotient, part)
        rest = arithmetic.sub(rest, await multiply(party, part, y))
    rest, positive = await multiply(party, torch.stack([rest, y]), divisor.sign)
    steps = torch.arange(1 - SLACK, SLACK + 1).view(-1, 1)
    reached = await negative(party, rest - steps * positive, invert=True)
    correction = reached.sum(0)
    return arithmetic.add(quotient, correction - SLACK if party.first else correction)


@protocol("floor_divide", shape=_broadcast, rounds="44", bytes="1700", error="exact; x // 0 is not defined")
async def floor_divide(party: Party, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Divide private integers by private integers, rounding down.

    1. Divide (see `divide`); divide the remainder, twice, and add: the error is a few units at most.
    2. Compare the remainder with small multiples of |y|, at the same time: the number of multiples it reaches
       corrects the quotient.

    Domain: |x| < 2^58, |y| < 2^58.
    """
    step = functools.partial(_floor, party)
    return await in_blocks(step, WEIGHT, *torch.broadcast_tensors(x, y))  # type: ignore[no-untyped-call]
