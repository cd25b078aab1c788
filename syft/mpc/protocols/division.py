"""Division by a private number: find its size, bring it between a half and one, invert it by Newton's iteration."""

from __future__ import annotations

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
MAX_SCALE = 1 << 24
# How far off the quotient of whole numbers may be after two divisions.
SLACK = 3
# Bits that a product gives up for the scale.
ROOM = 24


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


async def _divide(party: Party, x: torch.Tensor, y: torch.Tensor, scale: int) -> torch.Tensor:
    """Divide elements in one dimension; see `divide`."""
    positive, sign = await magnitude(party, y)
    whole, small, large = await _powers(party, positive)
    b, signed = await party.together(
        multiply(party, positive, whole, divisor=1 << (BITS - POINT)), multiply(party, x, sign)
    )
    w = await inverse(party, b)
    t = await multiply(party, signed, w, divisor=ONE)
    # x / y = t * 2^(61 - k) / 2^62. The scale's odd part is multiplied by, the rest of it spared in the divisor.
    twos = scale & -scale
    odd = scale // twos
    high, low = await party.together(
        multiply(party, t * odd, small, divisor=(1 << (BITS - POINT)) // twos),
        _by_large(party, t, large, odd, twos),
    )
    result: torch.Tensor = high + low
    return result


async def _by_large(party: Party, t: torch.Tensor, large: torch.Tensor, odd: int, twos: int) -> torch.Tensor:
    """Multiply where the divisor was large: the product nearly fills a word, so it makes room before the scale."""
    product = await multiply(party, t, large, divisor=1 << ROOM)
    return await truncate(party, product * odd, (1 << (BITS - ROOM)) // twos)


def _blocks(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Size, list[tuple[torch.Tensor, torch.Tensor]]]:
    shape = ring.broadcast(x.shape, y.shape)
    xs, ys = x.expand(shape).reshape(-1), y.expand(shape).reshape(-1)
    pieces = zip(torch.split(xs, BLOCK), torch.split(ys, BLOCK), strict=True)
    return shape, list(pieces)


def _broadcast(x: torch.Tensor, y: torch.Tensor, scale: int = 1) -> torch.Size:
    if not 1 <= scale <= MAX_SCALE:
        raise ValueError(f"Division is exact enough for scales up to 2^{MAX_SCALE.bit_length() - 1} only.")
    return ring.broadcast(x.shape, y.shape)


@protocol("divide", shape=_broadcast, rounds="33", bytes="1510",
          error="2^-27 of the quotient, and 4 + 2 / |y| units in the last place; x / 0 gives 0")  # fmt: skip
async def divide(party: Party, x: torch.Tensor, y: torch.Tensor, scale: int = 1) -> torch.Tensor:
    """Divide private numbers by private numbers, times a public scale (that of the quotient).

    1. |y| and its sign (see `sign_of`).
    2. The top bit k of |y|, as powers of two (see `_powers`), and b = |y| / 2^(k + 1), in [1/2, 1).
    3. w = 1 / b by Newton's iteration (see `inverse`).
    4. x / y = sign x w / 2^(k + 1).

    Sees: masked values only. Rounds: 33. Bytes: about 1510 an element, most of them for the 62 comparisons of step
    2. Domain: |x| < 2^30 units, |y| < 2^61 units, the quotient below 2^30 units times the power of two in the
    scale.
    """
    shape, pieces = _blocks(x, y)
    if not pieces or shape.numel() == 0:
        return torch.zeros(shape, dtype=torch.int64)
    return torch.cat([await _divide(party, a, b, scale) for a, b in pieces]).view(shape)


async def _floor(party: Party, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Divide whole numbers in one dimension exactly; see `floor_divide`."""
    quotient = await _divide(party, x, y, 1)
    rest = x - await multiply(party, quotient, y)
    quotient = quotient + await _divide(party, rest, y, 1)
    rest, (positive, sign) = await party.together(multiply(party, quotient, y), magnitude(party, y))
    signed = await multiply(party, x - rest, sign)
    steps = torch.arange(1 - SLACK, SLACK + 1).view(-1, 1)
    reached = await negative(party, signed - steps * positive, invert=True)
    correction = reached.sum(0)
    return ring.add(quotient, correction - SLACK if party.first else correction)


@protocol("floor_divide", shape=_broadcast, rounds="82", bytes="3200", error="exact; x // 0 is not defined")
async def floor_divide(party: Party, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Divide private whole numbers by private whole numbers, rounding down.

    1. Divide (see `divide`); divide what is left over, and add: off by a few units at most.
    2. Compare what is left over with small multiples of |y|, side by side: how many of them it reaches is what the
       quotient is off by.

    Domain: as that of `divide`, and |y| < 2^59.
    """
    shape, pieces = _blocks(x, y)
    if not pieces or shape.numel() == 0:
        return torch.zeros(shape, dtype=torch.int64)
    return torch.cat([await _floor(party, a, b) for a, b in pieces]).view(shape)
