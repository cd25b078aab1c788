"""Comparison by function secret sharing: one round, for two parties.

The dealer deals a mask r and the keys of a function of c = x + r (see `syft.mpc.ring.fss_keys`), each party its own;
the parties open c, 8 bytes an element, and evaluate, each alone. The keys are large, 1,504 bytes an element or 1,040,
and the dealer sends them ahead of the run once it knows the deals of a program. With another number of parties the
protocols of `comparison` run instead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import torch

from syft.mpc.dealer.deals import DealerContext, deals
from syft.mpc.protocols import comparison
from syft.mpc.protocols.arithmetic import multiply
from syft.mpc.ring import fss_keys
from syft.mpc.ring.fss_keys import Key
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.protocol_registry import broadcast, protocol

# Elements that keys are dealt for at a time, so that memory stays bounded (49 MB of keys).
CHUNK = 1 << 15
SIGN_ROWS = fss_keys.rows(fss_keys.SIGN_BITS, True)
EQUAL_ROWS = fss_keys.rows(64, False)


@deals("fss_compare", common=True)
def deal_compare(context: DealerContext, count: int) -> tuple[Any, ...]:
    """Deal a mask r, its top bit, and keys that test whether c - r is negative."""
    r, own = context.random((count,)), context.random_bits((2, count))
    top = context.fixed((count,), lambda: fss_keys.top_bit(r.value))
    return (
        r,
        own,
        context.common((SIGN_ROWS, count), lambda: fss_keys.sign_words(r.value, (own.shares[0], own.shares[1]))),
        top,
    )


@deals("fss_equal", common=True)
def deal_equal(context: DealerContext, count: int) -> tuple[Any, ...]:
    """Deal a mask r, and keys that test whether c is r."""
    r, own = context.random((count,)), context.random_bits((2, count))
    words = context.common(
        (EQUAL_ROWS, count), lambda: fss_keys.common_words(r.value, None, 64, (own.shares[0], own.shares[1]))
    )
    return r, own, words


async def _negative(party: Party, x: torch.Tensor) -> torch.Tensor:
    r, own, words, top = await party.deal("fss_compare", x.numel())
    (c,) = await party.open(x + r)
    return fss_keys.negative(party.index, Key(own, words), top, c)


async def _zero(party: Party, x: torch.Tensor) -> torch.Tensor:
    r, own, words = await party.deal("fss_equal", x.numel())
    (c,) = await party.open(x + r)
    return fss_keys.evaluate(party.index, Key(own, words), c)


async def _in_chunks(
    party: Party,
    test: Callable[[Party, torch.Tensor], Awaitable[torch.Tensor]],
    x: torch.Tensor,
    invert: bool,
    scale: int,
) -> torch.Tensor:
    """Run a test on chunks, one after the other, and join the results."""
    flat = x.reshape(-1)
    result = torch.empty_like(flat)
    for start in range(0, len(flat), CHUNK):
        result[start : start + CHUNK] = await test(party, flat[start : start + CHUNK])
    if invert:
        result = 1 - result if party.first else -result
    return (result if scale == 1 else result * scale).view(x.shape)


@protocol("fss_negative", rounds="1 for each 32,768 elements", bytes="8")
async def negative(party: Party, x: torch.Tensor, invert: bool = False, scale: int = 1) -> torch.Tensor:
    """Compute which elements are negative (or, inverted, which are not), as 1 or 0 times a public scale.

    1. The dealer deals a uniform r, shares of its top bit, and two keys that compare with the rest of r.
    2. The parties open c = x + r.
    3. Each evaluates its key at c: shares of "c_low < r_low" xor r_top, and, c_top being public, of the top bit of x.

    Sees: c, which is uniform, and a key, which reveals nothing about r without the other one. Rounds: 1. Bytes: 8 an
    element; the dealer sends 1,504 of keys to each party. Right for every x of the ring.
    """
    if party.count != 2:
        return await comparison.negative(party, x, invert, scale)
    return await _in_chunks(party, _negative, x, invert, scale)


@protocol("fss_zero", rounds="1 for each 32,768 elements", bytes="8")
async def zero(party: Party, x: torch.Tensor, invert: bool = False, scale: int = 1) -> torch.Tensor:
    """Compute which elements are zero (or, inverted, which are not), as 1 or 0 times a public scale.

    1. The dealer deals a uniform r and two keys of the function that is 1 at r and 0 elsewhere.
    2. The parties open c = x + r.
    3. Each evaluates its key at c.

    Sees: c, which is uniform, and a key, which reveals nothing about r without the other one. Rounds: 1. Bytes: 8 an
    element; the dealer sends 1,040 of keys to each party. Right for every x of the ring.
    """
    if party.count != 2:
        return await comparison.zero(party, x, invert, scale)
    return await _in_chunks(party, _zero, x, invert, scale)


@protocol("fss_relu", rounds="1 for each 32,768 elements, and 1", bytes="24")
async def relu(party: Party, x: torch.Tensor) -> Any:
    """Compute max(x, 0): `negative`, and a product.

    Sees: the same as in `negative` and `multiply`. Rounds: 2. Bytes: 24 an element.
    """
    if party.count != 2:
        return await comparison.relu(party, x)
    return await multiply(party, x, await negative(party, x, True))


@protocol("fss_ge0", rounds="1 for each 32,768 elements", bytes="8")
async def ge0(party: Party, x: torch.Tensor) -> torch.Tensor:
    """Compute which elements are zero or more. See `negative`."""
    return await negative(party, x, invert=True)


@protocol("fss_lt", shape=broadcast, rounds="1 for each 32,768 elements", bytes="8")
async def lt(party: Party, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Compute where x < y, for x and y in [-2^62, 2^62). See `negative`."""
    return await negative(party, x - y)


@protocol("fss_le", shape=broadcast, rounds="1 for each 32,768 elements", bytes="8")
async def le(party: Party, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Compute where x <= y, for x and y in [-2^62, 2^62): where y - x is not negative. See `negative`."""
    return await negative(party, y - x, invert=True)


@protocol("fss_eq", shape=broadcast, rounds="1 for each 32,768 elements", bytes="8")
async def eq(party: Party, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Compute where x equals y, for all of the ring. See `zero`."""
    return await zero(party, x - y)
