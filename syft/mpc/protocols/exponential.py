"""The exponential function of private numbers: a power of two from a table, times a polynomial near one."""

from __future__ import annotations

import functools
import math

import numpy as np
import torch

from syft.exceptions import ProtocolError
from syft.mpc.protocols.arithmetic import multiply
from syft.mpc.protocols.chunking import in_blocks
from syft.mpc.protocols.lookup import LookupPosition, read
from syft.mpc.protocols.thresholds import reached
from syft.mpc.protocols.truncation import truncate
from syft.mpc.ring import arithmetic
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.protocol_registry import protocol

# Fractional bits of x log2(e). Of its integer bits 6 are read (modulo 64), or 5 where no x is positive, and 4
# fractional bits.
POINT = 57
WHOLE, NEGATIVE = 6, 5
FINE = 4
# Bits of the remainder that are used.
INNER = 14
# Fractional bits of the polynomial, before and after rounding.
FIRST, LAST = 52, 26
# Results have fewer bits than this.
ROOM = 55
MAX_SCALE = 1 << 40


def edges(scale: int, out: int) -> tuple[int, int]:
    """Return the interval, in units, in which the function is computed; below it is 0, above it is constant."""
    return math.ceil(-math.log(2 * out) * scale), math.floor((ROOM * math.log(2) - math.log(out)) * scale)


@functools.lru_cache(maxsize=64)
def _powers(out: int, width: int) -> tuple[torch.Tensor, int, int]:
    """Return powers of two for each integer exponent modulo 2^width, small and large ones, and log2 of their scales.

    The part of the result's scale that is not a power of two is in the other table (see `_fine`).
    """
    count = 1 << width
    small, large = [0] * count, [0] * count
    spare, bits = 4, out.bit_length() - 1
    limit = 61 - (LAST + 2) - spare  # bits of a small power, so that its product has room
    lowest = -bits - 3
    for exponent in range(lowest, min(lowest + count, ROOM + 2 - bits)):
        if bits + exponent < limit:
            small[exponent % count] = round(2.0 ** (bits + exponent + spare))
        else:
            large[exponent % count] = 1 << (bits + exponent + spare - LAST)
    return torch.tensor([small, large]).t().contiguous(), LAST + spare, spare


@functools.lru_cache(maxsize=64)
def _fine(out: int) -> torch.Tensor:
    """Return coefficients of 2^(n / 16 + v), |v| < 1/16, a column for each n from -15 to 15, at the scale of `FIRST`.

    They include the part of the scale of the result that is not a power of two. The polynomial interpolates at
    Chebyshev points; its error is 4e-6 at most.
    """
    points = np.cos(np.pi * (np.arange(3) + 0.5) / 3)
    near = np.linalg.solve(np.vander(points, increasing=True), np.exp2(points / (1 << FINE)))
    last = (1 << FINE) - 1
    part = out / (1 << (out.bit_length() - 1))
    steps = np.exp2(np.arange(-last, last + 1) / (1 << FINE)) * part
    scales = 2.0 ** (FIRST - INNER * np.arange(3))
    return torch.from_numpy(np.rint((near * scales)[:, None] * steps).astype(np.int64))


async def _mantissa(party: Party, t: torch.Tensor, out: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mantissa of 2^t, with `LAST` fractional bits, and shares of its integer power of two."""
    place = LookupPosition(((POINT, width), (POINT - FINE, FINE)), POINT - FINE - INNER, 2, joined=True)
    reading = await read(party, t, place)
    powers = reading.first(_powers(out, width)[0])
    return await truncate(party, reading.last(_fine(out)), 1 << (FIRST - LAST)), powers


async def _raised(party: Party, x: torch.Tensor, scale: int, out: int, negative: bool) -> torch.Tensor:
    """Return e^x between the edges."""
    factor = round(math.log2(math.e) * 2.0**POINT / scale)
    low = negative and out < 1 << 26  # from 3 bits below the smallest unit up to one
    width = NEGATIVE if low else WHOLE
    mantissa, powers = await _mantissa(party, x * factor, out, width)
    _, for_small, for_large = _powers(out, width)
    if low:  # no result is large
        return await multiply(party, mantissa, powers[0], divisor=1 << for_small)
    small, large = await party.together(
        multiply(party, mantissa, powers[0], divisor=1 << for_small),
        multiply(party, mantissa, powers[1], divisor=1 << for_large),
    )
    return arithmetic.add(small, large)


async def exponential(party: Party, x: torch.Tensor, scale: int, out: int, negative: bool = False) -> torch.Tensor:
    """Return e^x of elements in one dimension; see `exp`."""
    first, last = edges(scale, out)
    levels = (first,) if negative else (first, last)
    made, found = await party.together(_raised(party, x, scale, out, negative), reached(party, x, levels))
    if negative:
        return await multiply(party, made, found[0])
    top = round(math.exp(last / scale) * out)
    jumps = torch.stack([made, top - made if party.first else -made])
    chosen: torch.Tensor = await multiply(party, found, jumps)
    return chosen.sum(0)


def check_scales(*scales: object) -> None:
    """Raise unless all scales are supported."""
    if not all(type(scale) is int and 1 <= scale <= MAX_SCALE for scale in scales):
        raise ProtocolError(
            f"The scale of a function's numbers must be an integer from 1 to {MAX_SCALE}, got {scales}."
        )


@protocol("exp", rounds="8", bytes="130", error="1 unit in the last place and 2^-16 of the result")
async def exp(
    party: Party, x: torch.Tensor, scale: int, out: int | None = None, negative: bool = False
) -> torch.Tensor:
    """Return e^x for numbers with a scale.

    1. t = x log2(e), modulo 64: its integer part n, four more bits m, and the remainder v are read from c = t + r (see
       `lookup`). 2^n comes from a table, 2^(m / 16 + v) from polynomials of degree 2, one for each m.
    2. 2^t is their product, rescaled.
    3. At the same time compare x with the edges. Below the first one, where e^x is less than half a unit, the result is
       0; beyond the second one, where it would need more than 55 bits, it is that of the edge.

    Args:
        party: this party.
        x: its share.
        scale: the scale of x.
        out: the scale of the result; by default that of x.
        negative: whether all numbers are 0 or less; then the second edge is not compared.

    Sees: masked values. Rounds: 8. Dealt: about 1.2 kB an element.
    """
    made = scale if out is None else out
    check_scales(scale, made)
    return await in_blocks(lambda part: exponential(party, part, scale, made, negative), 1 << (WHOLE + 1), x)
