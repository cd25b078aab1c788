"""Division by a private number: find its size, bring it between a half and one, invert it by Newton's iteration."""

from __future__ import annotations

import dataclasses
import itertools

import torch

from syft.mpc import ring
from syft.mpc.party import Party
from syft.mpc.protocols.arithmetic import multiply
from syft.mpc.protocols.comparison import negative, sign_of
from syft.mpc.protocols.truncation import truncate
from syft.mpc.table import protocol

# Divisors have up to 62 bits; fractions are kept with 30.
BITS = 62
POINT = 30
ONE = 1 << POINT
# 2.9142 - 2 b is off by at most 0.086 for b in [1/2, 1]; the error is squared by each step: 3e-9 after three.
START = round(2.9142135 * ONE)
STEPS = 3
# How many elements are worked on at once: 62 comparisons each are made side by side.
BLOCK = 1 << 14
# Up to this top bit of the divisor the power of two is small enough to be multiplied by with bits to spare.
SPLIT = 31
MAX_SCALE = 1 << 40
MAX_ODD = 1 << 24
# How far off the quotient of whole numbers may be after that.
SLACK = 4
# Dividends have up to 58 bits, so what they are multiplied to has one more.
REACH = 59
# How often what is left over is divided again: a quotient has 27 right bits after the first time.
REPEATS = 3


async def magnitude(party: Party, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return |x|, and 1 where x is not negative or -1 where it is, of elements in one dimension."""
    found = await sign_of(party, x, 1)
    sign = -2 * (found.coin * found.sign)
    if party.first:
        sign += 1 - 2 * found.opened
    return 2 * found.kept(x, 0) - x, sign


async def _powers(party: Party, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return powers of two that tell the size of each positive y: 2^(61 - k) where k is its top bit, and 0 for 0.

    1. Compare y with 2^j for all j from 0 to 61, side by side.
    2. Whatever depends on k alone is a sum of these bits times public numbers: the whole power, and, so that
       products have room, 2^(31 - k) where k is at most 31, and 2^(61 - k) where it is more.
    """
    steps = torch.tensor([1 << j for j in range(BITS)]).view(-1, 1)
    difference = y - steps if party.first else y.expand(BITS, -1)
    reached = await negative(party, difference, invert=True)
    whole = [1 << (BITS - 1 - k) for k in range(BITS)]
    small = [power >> POINT if k <= SPLIT else 0 for k, power in enumerate(whole)]
    large = [0 if k <= SPLIT else power for k, power in enumerate(whole)]
    return _by_size(reached, whole), _by_size(reached, small), _by_size(reached, large)


def _by_size(reached: torch.Tensor, values: list[int]) -> torch.Tensor:
    """Return the value that belongs to the size of each element, from bits that tell which sizes it reached."""
    weights = [values[0]] + [values[k] - values[k - 1] for k in range(1, BITS)]
    return (reached * torch.tensor(weights).view(-1, 1)).sum(0)


async def inverse(party: Party, b: torch.Tensor) -> torch.Tensor:
    """Invert b in [1/2, 1), both with 30 bits behind the point: w becomes w (2 - b w), three times."""
    w = START - 2 * b if party.first else -2 * b
    for _ in range(STEPS):
        product = await multiply(party, b, w, divisor=ONE)
        rest = 2 * ONE - product if party.first else -product
        w = await multiply(party, w, rest, divisor=ONE)
    return w


@dataclasses.dataclass(frozen=True, slots=True)
class Divisor:
    """What is known of divisors in shares, whatever they divide.

    Attributes:
        positive: |y|.
        sign: 1 or -1.
        inverse: 2^(k + 1) / |y|, where k is the top bit of |y|, with 30 bits behind the point.
        small: 2^(31 - k) where k is at most 31, else 0.
        large: 2^(61 - k) where k is more than 31, else 0.
    """

    positive: torch.Tensor
    sign: torch.Tensor
    inverse: torch.Tensor
    small: torch.Tensor
    large: torch.Tensor


async def prepare(party: Party, y: torch.Tensor) -> Divisor:
    """Work out what dividing by y (in one dimension) takes."""
    positive, sign = await magnitude(party, y)
    whole, small, large = await _powers(party, positive)
    b = await multiply(party, positive, whole, divisor=1 << (BITS - POINT))
    return Divisor(positive, sign, await inverse(party, b), small, large)


async def _pieces(party: Party, x: torch.Tensor, bits: int) -> list[torch.Tensor]:
    """Cut numbers into pieces of a few bits more or less than `bits`, least significant first, in one round."""
    count = -(-REACH // bits)
    higher = await party.together(*[truncate(party, x, 1 << (bits * number)) for number in range(1, count)])
    quotients = [x, *higher]
    return [low - (high << bits) for low, high in itertools.pairwise(quotients)] + [quotients[-1]]


async def _rescaled(party: Party, x: torch.Tensor, factor: torch.Tensor, exponent: int) -> torch.Tensor:
    """Multiply, and divide by a power of two, which may be a fraction."""
    product = await multiply(party, x, factor, divisor=1 << max(exponent, 0))
    return torch.bitwise_left_shift(product, max(-exponent, 0))


async def _apply(party: Party, x: torch.Tensor, divisor: Divisor, scale: int) -> torch.Tensor:
    """Divide x, which has taken over the sign of the divisor, times the scale; see `divide`."""
    low, high = await _pieces(party, x, POINT)
    low, high = await party.together(
        multiply(party, low, divisor.inverse, divisor=ONE), multiply(party, high, divisor.inverse)
    )
    # x / y = t / 2^(k + 1). The scale's odd part is multiplied by, the rest of it spared in the divisor.
    odd = scale // (scale & -scale)
    spared = (scale & -scale).bit_length() - 1
    width = POINT + 1 - odd.bit_length()
    pieces = await _pieces(party, low + high, width)
    parts = []
    for number, piece in enumerate(pieces):
        moved = spared + number * width
        parts.append(_rescaled(party, piece * odd, divisor.small, BITS - POINT - moved))
        parts.append(_rescaled(party, piece * odd, divisor.large, BITS - moved))
    first, *others = await party.together(*parts)
    for other in others:
        first = ring.add(first, other)
    result: torch.Tensor = first
    return result


async def _divide(party: Party, x: torch.Tensor, y: torch.Tensor, scale: int) -> torch.Tensor:
    """Divide elements in one dimension; see `divide`."""
    divisor = await prepare(party, y)
    return await _apply(party, await multiply(party, x, divisor.sign), divisor, scale)


def _blocks(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Size, list[tuple[torch.Tensor, torch.Tensor]]]:
    shape = ring.broadcast(x.shape, y.shape)
    xs, ys = x.expand(shape).reshape(-1), y.expand(shape).reshape(-1)
    pieces = zip(torch.split(xs, BLOCK), torch.split(ys, BLOCK), strict=True)
    return shape, list(pieces)


def _broadcast(x: torch.Tensor, y: torch.Tensor, scale: int = 1) -> torch.Size:
    if not 1 <= scale <= MAX_SCALE or scale // (scale & -scale) > MAX_ODD:
        raise ValueError("Division by private numbers has room for scales up to 2^40, their odd part up to 2^24.")
    return ring.broadcast(x.shape, y.shape)


@protocol("divide", shape=_broadcast, rounds="35", bytes="1700",
          error="2^-27 of the quotient, and 8 + 2 / |y| units in the last place; x / 0 gives 0")  # fmt: skip
async def divide(party: Party, x: torch.Tensor, y: torch.Tensor, scale: int = 1) -> torch.Tensor:
    """Divide private numbers by private numbers, times a public scale (that of the quotient).

    1. |y| and its sign (see `sign_of`).
    2. The top bit k of |y|, as powers of two (see `_powers`), and b = |y| / 2^(k + 1), in [1/2, 1).
    3. w = 1 / b by Newton's iteration (see `inverse`).
    4. t = sign x w, and x / y = t / 2^(k + 1); x and t are cut into pieces whose products fit into a word.

    Sees: masked values only. Rounds: 35. Bytes: about 1700 an element, most of them for the 62 comparisons of step
    2. Domain: |x| < 2^58 units, |y| < 2^61 units, the quotient below 2^61 units.
    """
    shape, pieces = _blocks(x, y)
    if not pieces or shape.numel() == 0:
        return torch.zeros(shape, dtype=torch.int64)
    return torch.cat([await _divide(party, a, b, scale) for a, b in pieces]).view(shape)


async def _floor(party: Party, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Divide whole numbers in one dimension exactly; see `floor_divide`."""
    divisor = await prepare(party, y)
    rest = await multiply(party, x, divisor.sign)
    quotient = torch.zeros_like(x)
    for _ in range(REPEATS):
        part = await _apply(party, rest, divisor, 1)
        quotient = ring.add(quotient, part)
        rest = ring.sub(rest, await multiply(party, part, divisor.positive))
    steps = torch.arange(1 - SLACK, SLACK + 1).view(-1, 1)
    reached = await negative(party, rest - steps * divisor.positive, invert=True)
    correction = reached.sum(0)
    return ring.add(quotient, correction - SLACK if party.first else correction)


@protocol("floor_divide", shape=_broadcast, rounds="57", bytes="2200", error="exact; x // 0 is not defined")
async def floor_divide(party: Party, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Divide private whole numbers by private whole numbers, rounding down.

    1. Divide (see `divide`); divide what is left over, twice, and add: off by a few units at most.
    2. Compare what is left over with small multiples of |y|, side by side: how many of them it reaches is what the
       quotient is off by.

    Domain: |x| < 2^58, |y| < 2^58.
    """
    shape, pieces = _blocks(x, y)
    if not pieces or shape.numel() == 0:
        return torch.zeros(shape, dtype=torch.int64)
    return torch.cat([await _floor(party, a, b) for a, b in pieces]).view(shape)
