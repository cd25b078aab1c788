"""Truncation: division by a public number, in one round, without failures, for any number of parties."""

from __future__ import annotations

from typing import Any

import torch

from syft.exceptions import ProtocolError
from syft.mpc.dealer.deals import DealerContext, deals
from syft.mpc.ring import arithmetic
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.protocol_registry import protocol

WHOLE = 1 << 64


def _offset(divisor: int) -> int:
    """Return the number that makes every value positive: the largest multiple of the divisor up to 2^62."""
    return ((1 << 62) // divisor) * divisor


def _signed(number: int) -> int:
    """Return a number modulo 2^64 as a signed int64."""
    return (number + WHOLE // 2) % WHOLE - WHOLE // 2


def _is_power_of_two(divisor: int) -> bool:
    return divisor & (divisor - 1) == 0


@deals("truncation")
def deal_truncation(context: DealerContext, shape: tuple[int, ...], divisor: int) -> tuple[Any, ...]:
    """Deal a mask r, its quotient r // d, and its top bit (times 2^64 / d where that is an integer)."""
    r = context.random(shape)
    quotient = context.fixed(shape, lambda: arithmetic.floor_divide_signed(r.value, divisor))
    weight = _signed(WHOLE // divisor) if _is_power_of_two(divisor) else 1
    return r, quotient, context.fixed(shape, lambda: (r.value >> 63) & weight)


def _reveal(opened: torch.Tensor, divisor: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the factor of the top bit of r, and the public part of the quotient, from the opened value."""
    c = arithmetic.add(opened, _offset(divisor))
    quotient = arithmetic.floor_divide(c, divisor)
    known = arithmetic.sub(quotient, _offset(divisor) // divisor)
    if _is_power_of_two(divisor):
        return c >> 63, known
    return arithmetic.sub(quotient, arithmetic.floor_divide_signed(c, divisor)), known


async def truncate(party: Party, x: torch.Tensor, divisor: int) -> torch.Tensor:
    """Divide by a public number.

    1. The dealer deals a uniform r, and shares of r // d and of r_63; r is read with a sign, r_63 is its top bit.
    2. The parties open x + r, and so know c = x + m + r, where m is the multiple of d next below 2^62: x + m is
       between 0 and 2^63.
    3. If c is read without a sign, x + m = c - r where r_63 is not set. Where it is, c has to be read with a sign:
       the two readings are the same unless c_63 is set, and their quotients differ by the public number
       k = c // d - (c - 2^64) // d.
    4. x // d is c // d - r // d - r_63 k - m // d, or one more: the remainders of c and r may borrow from each other.

    Sees: x + r, which is uniform. Rounds: 1. Bytes: 8 an element. Error: less than 1 unit; the result is rounded up
    or down at random, in proportion, so errors do not add up one way, and multiples of d are divided exactly. Values
    must lie in [-2^62 + d, 2^62).
    """
    if type(divisor) is not int or not 1 <= divisor <= 1 << 62:
        raise ProtocolError(f"The divisor of shares must be an integer from 1 to 2^62, got {divisor!r}.")
    if divisor == 1:
        return x
    r, quotient, top = await party.deal("truncation", tuple(x.shape), divisor)
    (opened,) = await party.open(arithmetic.add(x, r))
    factor, known = party.public(_reveal, opened, divisor)
    taken = top & factor if _is_power_of_two(divisor) else arithmetic.mul(top, factor)
    taken = arithmetic.add_into(taken, quotient)
    return arithmetic.sub(known, taken) if party.first else taken.neg_()


@protocol("truncate", rounds="1", bytes="8", error="1 unit in the last place")
async def divide_by_public(party: Party, x: torch.Tensor, divisor: int) -> torch.Tensor:
    """Divide by a public integer, of either sign."""
    if type(divisor) is not int or divisor == 0:
        raise ProtocolError(f"The divisor of shares must be an integer other than zero, got {divisor!r}.")
    result = await truncate(party, x, abs(divisor))
    return -result if divisor < 0 else result
