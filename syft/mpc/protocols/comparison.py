"""Comparison with zero: a masked opening, then a tree of ANDs over bit planes; any number of parties.

All other comparisons use `negative` and `zero` of this module: x < y is "x - y is negative". Values must lie in
[-2^62, 2^62), so that differences do not wrap around.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from syft.mpc.dealer.deals import DealerContext, Dealt, deals
from syft.mpc.ring import arithmetic, bitslice
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.protocol_registry import protocol

# Pairs of bits become the leaves of the tree: 32 of them, and 31 ANDs over five levels.
LEAVES = 32
LEVELS = ((0, 16), (16, 24), (24, 28), (28, 30), (30, 31))
NODES = 31
Shape = tuple[int, ...]
# Planes are numpy arrays: for few words its calls take a third of the time of torch's.
Array = np.ndarray[Any, Any]


def deal_tree(context: DealerContext, count: int, trees: int) -> tuple[Any, ...]:
    """Deal the randomness for comparisons of masked numbers, with some trees for each.

    A mask r, the bits of r, the products of neighbouring bits; a triple (a, b, d, ab, ad) for each AND of a tree; and
    coins, random bits.
    """
    size = bitslice.width(count)
    r = context.random((count,))
    bits = context.fixed_bits((64, size), lambda: bitslice.to_planes(r.value))
    pairs = context.fixed_bits((31, size), lambda: bits.value[1:62:2] & bits.value[0:61:2])
    wide = size * trees
    a, b, d = (context.random_bits((NODES, wide)) for _ in range(3))
    ab = context.fixed_bits((NODES, wide), lambda: a.value & b.value)
    ad = context.fixed_bits((NODES - 1, wide), lambda: a.value[:-1] & d.value[:-1])
    return r, bits, pairs, a, b, d, ab, ad, context.random_bits((wide,))


@deals("sign")
def deal_sign(context: DealerContext, count: int, gates: int) -> tuple[Any, ...]:
    """Deal the randomness of `sign_of` for a number of elements.

    The values of `deal_tree`, and the coin as a number; with a gate also the coin times r, and for each further gate a
    mask and the coin times that.
    """
    r, *others, coin = deal_tree(context, count, 1)
    number = context.fixed((count,), lambda: bitslice.unpack(coin.value, count))
    dealt = [r, *others, coin, number]
    if gates:
        dealt.append(context.fixed((count,), lambda: arithmetic.mul(number.value, r.value)))
    for _ in range(gates - 1):
        mask = context.random((count,))
        dealt += [mask, context.fixed((count,), functools.partial(_product, number, mask))]
    return tuple(dealt)


def _product(x: Dealt, y: Dealt) -> torch.Tensor:
    return arithmetic.mul(x.value, y.value)


def leaf_masks(c: torch.Tensor) -> tuple[Array, Array, Array, Array]:
    """Return the planes of an opened value, the complements of odd and of even planes, and both together."""
    spread = bitslice.to_planes(c).numpy()
    complement = ~spread[:62]
    odd, even = complement[1::2], complement[0::2]
    return spread, odd, even, odd & even


def leaves(
    party: Party, public: tuple[Array, Array, Array, Array], bits: torch.Tensor, pairs: torch.Tensor
) -> tuple[Array, Array]:
    """Compare c with r two bits at a time: shares of "c < r" and of "c = r" for each pair, without a round.

    With c public, both are linear in the bits of r and in the dealt products of neighbouring bits. Bit 62 is a leaf
    of its own, at the top; bit 63 is not compared.
    """
    spread, odd, even, both = public
    mine, products = bits.numpy(), pairs.numpy()
    high, low = mine[1:62:2], mine[0:61:2]
    less = np.empty((LEAVES, mine.shape[1]), dtype=np.int64)
    same = np.empty_like(less)
    np.bitwise_and(odd, high, out=less[:31])
    less[:31] ^= both & low
    less[:31] ^= even & products
    np.bitwise_and(odd, low, out=same[:31])
    same[:31] ^= even & high
    same[:31] ^= products
    np.bitwise_and(mine[62], ~spread[62], out=less[31])
    same[31] = mine[62]
    if party.first:
        same[:31] ^= both
        same[31] ^= ~spread[62]
    return less, same


def _masked(values: tuple[Array, ...], masks: tuple[Array, ...]) -> torch.Tensor:
    """Return planes xor their masks, as one tensor that is opened in one round."""
    made = np.empty((len(values), *values[0].shape), dtype=np.int64)
    for row, value, mask in zip(made, values, masks, strict=True):
        np.bitwise_xor(value, mask, out=row)
    return torch.from_numpy(made)


async def tree(party: Party, less: Array, same: Array, triples: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Join neighbouring leaves until one is left: less = less_high + same_high less_low, same = same_high same_low."""
    a, b, d, ab, ad = (dealt.numpy() for dealt in triples)
    for start, stop in LEVELS[:-1]:
        high, low_less, low_same = same[1::2], less[0::2], same[0::2]
        here = slice(start, stop)
        (opened,) = await party.open_bits(_masked((high, low_less, low_same), (a[here], b[here], d[here])))
        e, f, g = opened.numpy()
        less = less[1::2] ^ ab[here]
        less ^= high & f
        less ^= e & b[here]
        same = high & g
        same ^= e & d[here]
        same ^= ad[here]
    # The root: nobody asks whether all bits are equal.
    (opened,) = await party.open_bits(_masked((same[1], less[0]), (a[30], b[30])))
    e, f = opened.numpy()
    return torch.from_numpy(less[1] ^ ab[30] ^ (same[1] & f) ^ (e & b[30]))


def toss(e: torch.Tensor, flips: Array | None, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return an opened bit, xor a public one, as words of 0 or 1, as signs 1 or -1, and as ones where it is 0."""
    bit = bitslice.unpack(e if flips is None else e ^ torch.from_numpy(flips), count)
    keep = arithmetic.sub(bit, 1)
    return bit, (~keep) | 1, keep


class Sign:
    """The result of `sign_of`: bit = opened + sign * coin, with a private coin.

    Attributes:
        opened: the bit xor the coin, public, 0 or 1.
        sign: 1 - 2 * opened.
        keep: all ones where opened is 0, else 0.
        coin: this party's share of the coin as a number.
        tossed: this party's shares of the coin times x, and times each further value.
    """

    __slots__ = ("coin", "keep", "opened", "sign", "tossed")

    def __init__(self, public: Any, coin: Any, tossed: list[Any]) -> None:
        self.opened, self.sign, self.keep = public
        self.coin = coin
        self.tossed = tossed

    def number(self, party: Party, invert: bool, scale: int) -> torch.Tensor:
        """Return this party's share of the bit (or, inverted, of its opposite) as a number, times a public scale."""
        factor = -scale if invert else scale
        result = arithmetic.mul(self.coin, self.sign if factor == 1 else self.sign * factor)
        if party.first:
            result = arithmetic.add(result, self.opened * factor + (scale if invert else 0))
        return result

    def kept(self, value: torch.Tensor, number: int) -> torch.Tensor:
        """Return this party's share of a value where x is not negative, and of 0 elsewhere."""
        # value * (1 - bit) = value * (1 - opened) - sign * coin * value
        return arithmetic.sub(value & self.keep, arithmetic.mul(self.sign, self.tossed[number]))


async def sign_of(party: Party, x: torch.Tensor, gates: int = 0, *values: torch.Tensor) -> Sign:
    """Compute which elements (in one dimension) are negative, masked by a coin.

    1. The dealer deals r, its bits, and a coin (see `deal_sign`).
    2. The parties open c = x + r. x is negative if its top bit, c_63 xor r_63 xor "c_low < r_low", is set.
    3. Leaves: "c < r" and "c = r" for pairs of bits, locally.
    4. Five levels of ANDs, each a masked opening of whole planes: "c_low < r_low".
    5. The top bit xor the coin is opened: the coin hides it, and turns it into a number.

    With a gate, the coin times r is dealt too: since x = c - r with c public, the coin times x costs no round. Each
    further value is masked and opened in round 2, and so multiplied by the coin.

    Sees: c, masked bits and a masked result, all uniform. Rounds: 7. Bytes: 8 + 92/8 + 1/8, under 20 an element.
    """
    count = x.numel()
    r, bits, pairs, a, b, d, ab, ad, coin, number, *gated = await party.deal("sign", count, gates)
    masks, products = gated[1::2], gated[0::2]
    hidden = [arithmetic.sub(value, mask) for value, mask in zip(values, masks, strict=True)]
    c, *opened = await party.open(arithmetic.add(x, r), *hidden)
    public = party.public(leaf_masks, c)
    less, same = leaves(party, public, bits, pairs)
    borrow = await tree(party, less, same, (a, b, d, ab, ad))
    (e,) = await party.open_bits(borrow ^ bits[63] ^ coin)
    tossed = [arithmetic.sub(arithmetic.mul(c, number), products[0])] if gates else []
    tossed += [
        arithmetic.add(product, arithmetic.mul(number, o)) for product, o in zip(products[1:], opened, strict=True)
    ]
    return Sign(party.public(toss, e, public[0][63], count), number, tossed)


@protocol("negative", rounds="7", bytes="20", error="exact")
async def negative(party: Party, x: torch.Tensor, invert: bool = False, scale: int = 1) -> torch.Tensor:
    """Compute which elements are negative (or, inverted, which are not), as 1 or 0 times a public scale.

    See `sign_of` for the steps. bit = opened + sign * coin is linear in the coin.
    """
    if x.numel() == 0:
        return x.clone()
    found = await sign_of(party, x.reshape(-1))
    return found.number(party, invert, scale).view(x.shape)


def _relu_shapes(x: torch.Tensor, bits: tuple[str, ...] = ()) -> Any:
    return [x.shape] * (1 + len(bits)) if bits else x.shape


@protocol("relu", shape=_relu_shapes, rounds="7", bytes="20", error="exact")
async def relu(party: Party, x: torch.Tensor, bits: tuple[str, ...] = ()) -> Any:
    """Compute max(x, 0), and on request the bits of the comparison as 1 or 0.

    See `sign_of` for the steps: relu(x) = x (1 - bit) = x (1 - opened) - sign coin x. The bit "ge" says x >= 0. For
    "gt", x > 0, the sign of x - 1 is taken instead, and relu(x) = relu(x - 1) + (x > 0); both are found side by side.
    """
    if x.numel() == 0:
        return tuple([x.clone()] * (1 + len(bits))) if bits else x.clone()
    flat = x.reshape(-1)
    below = flat - 1 if party.first else flat
    if "ge" not in bits and bits:
        found = await sign_of(party, below, 1)
        above = found.number(party, True, 1)
        return arithmetic.add(found.kept(below, 0), above).view(x.shape), above.view(x.shape)
    more = [sign_of(party, below)] if "gt" in bits else []
    found, *strict = await party.together(sign_of(party, flat, 1), *more)
    kept = found.kept(flat, 0).view(x.shape)
    known = {"ge": found, "gt": strict[0] if strict else None}
    numbers = [known[name].number(party, True, 1).view(x.shape) for name in bits]
    return (kept, *numbers) if bits else kept


@deals("coins")
def deal_coins(context: DealerContext, count: int) -> tuple[Any, ...]:
    """Deal the randomness of `zero`: a mask and its bits, products of neighbouring bits, triples, and a coin."""
    size = bitslice.width(count)
    r = context.random((count,))
    bits = context.fixed_bits((64, size), lambda: bitslice.to_planes(r.value))
    pairs = context.fixed_bits((32, size), lambda: bits.value[1::2] & bits.value[0::2])
    a, d = (context.random_bits((NODES, size)) for _ in range(2))
    ad = context.fixed_bits((NODES, size), lambda: a.value & d.value)
    coin = context.random_bits((size,))
    number = context.fixed((count,), lambda: bitslice.unpack(coin.value, count))
    return r, bits, pairs, a, d, ad, coin, number


def _complements(c: torch.Tensor) -> tuple[Array, Array, Array]:
    complement = ~bitslice.to_planes(c).numpy()
    odd, even = complement[1::2], complement[0::2]
    return odd, even, odd & even


async def _equal(
    party: Party, public: tuple[Array, Array, Array], bits: Array, pairs: Array, a: Array, d: Array, ad: Array
) -> torch.Tensor:
    """Return this party's share of "c = r": pairs of bits, locally, then a tree of ANDs."""
    odd, even, both = public
    same = odd & bits[0::2]
    same ^= even & bits[1::2]
    same ^= pairs
    if party.first:
        same ^= both
    for start, stop in LEVELS:
        high, low, here = same[1::2], same[0::2], slice(start, stop)
        (opened,) = await party.open_bits(_masked((high, low), (a[here], d[here])))
        e, g = opened.numpy()
        same = high & g
        same ^= e & d[here]
        same ^= ad[here]
    return torch.from_numpy(same[0])


@protocol("zero", rounds="7", bytes="16", error="exact")
async def zero(party: Party, x: torch.Tensor, invert: bool = False, scale: int = 1) -> torch.Tensor:
    """Compute which elements are zero (or, inverted, which are not), as 1 or 0 times a public scale.

    1. The dealer deals r, its bits and a coin. The parties open c = x + r: x is zero if c equals r in all bits.
    2. "c = r" for pairs of bits, locally, then five levels of ANDs of whole planes.
    3. The result xor the coin is opened, and turned into a number as in `negative`.

    Sees: c, masked bits and a masked result, all uniform. Rounds: 7. Bytes: 8 + 62/8 + 1/8, under 16 an element.
    """
    if x.numel() == 0:
        return x.clone()
    count = x.numel()
    r, bits, pairs, a, d, ad, coin, number = await party.deal("coins", count)
    (c,) = await party.open(arithmetic.add(x.reshape(-1), r))
    root = await _equal(party, party.public(_complements, c), *(dealt.numpy() for dealt in (bits, pairs, a, d, ad)))
    (e,) = await party.open_bits(root ^ coin)
    found = Sign(party.public(toss, e, None, count), number, [])
    return found.number(party, invert, scale).view(x.shape)
