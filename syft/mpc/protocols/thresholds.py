"""Thresholds: comparisons of the same private numbers with many public ones, with one mask."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from syft.mpc.dealer.deals import DealerContext, deals
from syft.mpc.protocols.comparison import Array, Sign, deal_tree, leaf_masks, leaves, toss, tree
from syft.mpc.ring import arithmetic, bitslice
from syft.mpc.runtime.party import Party

Levels = tuple[int, ...]


@deals("levels")
def deal_levels(context: DealerContext, count: int, levels: int) -> tuple[Any, ...]:
    """Deal the randomness of `reached`: a mask, its bits, and for each level the triples of a tree and a coin."""
    *dealt, coin = deal_tree(context, count, levels)
    words = bitslice.width(count) * levels * bitslice.WORD
    return *dealt, coin, context.fixed((words,), lambda: bitslice.unpack(coin.value, words))


def _masks_at(c: torch.Tensor, levels: Levels) -> tuple[Array, Array, Array, Array]:
    """Return the leaf masks of c - level, for all levels at once; each starts at a new word."""
    size = bitslice.width(c.numel())
    padded = torch.zeros(size * bitslice.WORD, dtype=torch.int64)
    padded[: c.numel()] = c
    return leaf_masks((padded - torch.tensor(levels).view(-1, 1)).reshape(-1))


async def reached(party: Party, x: torch.Tensor, levels: Levels) -> torch.Tensor:
    """Compute which levels each element (in one dimension) reaches: shares of 1 where x >= level, else 0, by level.

    1. The dealer deals r and its bits. The parties open c = x + r.
    2. x - level = (c - level) - r, so each level is a comparison of another public number with the same r: steps 3 to
       5 of `sign_of`, for all levels side by side.

    Sees: c, masked bits and masked results, all uniform; each tree has masks of its own. Rounds: 7. Bytes: 8, and 12
    for each level, an element.
    """
    count, several = x.numel(), len(levels)
    r, bits, pairs, a, b, d, ab, ad, coin, number = await party.deal("levels", count, several)
    (c,) = await party.open(arithmetic.add(x, r))
    public = party.public(_masks_at, c, levels)
    less, same = leaves(party, public, bits.repeat(1, several), pairs.repeat(1, several))
    borrow = await tree(party, less, same, (a, b, d, ab, ad))
    (e,) = await party.open_bits(borrow ^ bits[63].repeat(several) ^ coin)
    found = Sign(party.public(toss, e, public[0][63], number.numel()), number, [])
    return found.number(party, True, 1).view(several, -1)[:, :count]


def by_level(found: torch.Tensor, values: list[int], party: Party) -> torch.Tensor:
    """Return this party's share of values[n], where n is the number of levels that an element reaches."""
    steps = torch.tensor([after - before for before, after in itertools.pairwise(values)])
    chosen = arithmetic.matmul(steps, found)
    return arithmetic.add(chosen, values[0]) if party.first else chosen
