"""Keys of function secret sharing for two parties over Z_2^64, made and evaluated.

A dealer that knows a point alpha splits the function f(x) = [x == alpha], or f(x) = beta * [x < alpha], in two
keys. A key alone reveals nothing about alpha; the two parties evaluate their keys at a public x, each alone, and
hold shares of f(x). With alpha a dealt mask r and x the opened sum of a secret and r, that is a test of the
secret.

The tree is the one of Boyle, Gilboa and Ishai (CCS 2016; comparison: Boyle et al., Eurocrypt 2021, Figure 1) in
the form of Guo et al., "Half-Tree" (Eurocrypt 2023, eprint 2022/1431), which hashes once a level:

1. Each party has a node s, 128 bits; its lowest bit is the control bit t. On the path to alpha the two nodes
   differ by a secret D with D's lowest bit 1; off the path they are the same.
2. The child in direction d is H(s) ^ d*s ^ t*W, where the correction word of the level is
   W = H(s0) ^ H(s1) ^ (1 - alpha_i)*D. So the child on the path keeps the difference D, the other one loses it.
3. For comparisons each level also gives a word of Z_2^64 for each direction, H'(s), with a correction of its
   own, and the share is their sum along the path.
4. The last three levels are one: a leaf gives eight words, H'(s ^ 2j), each with its correction.

H(s) = AES(m(s)) ^ m(s) with m(a, b) = (a ^ b, a) and a fixed key, H' the same with another key: circular
correlation robust if AES with a fixed key is like a random permutation (Guo, Katz, Wang, Yu 2020).

Per element a key has 16 bytes of its own, and 1,040 (equality) or 1,504 (comparison) that both parties have.
All values are exact: no result is ever wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from syft.core.generator import Generator

Words: TypeAlias = npt.NDArray[np.uint64]

LEAF_BITS = 3  # levels that a leaf stands for
BLOCK = 1 << 14  # elements of a block: more leave the cache, fewer make the overhead of numpy's calls visible
_ONE = np.uint64(1)
_LEAVES = np.uint64((1 << LEAF_BITS) - 1)
SIGN_BITS = 63  # length of the numbers that a test of a sign compares

# Digits of pi. Fixed and public: the hash needs permutations without structure, not secrets.
_NODE_KEY = bytes.fromhex("243f6a8885a308d313198a2e03707344")
_VALUE_KEY = bytes.fromhex("a4093822299f31d0082efa98ec4e6c89")


@dataclass(frozen=True, repr=False)
class Key:
    """One party's key for n elements: what only this party has, and what both have.

    `own` has two rows (the root of the tree). `common` has, level by level, the correction words and, for
    comparisons, the correction of the value, then the corrections of the leaf.
    """

    own: torch.Tensor
    common: torch.Tensor


def rows(bits: int, compares: bool) -> int:
    """Return the number of words of an element in `Key.common`, for points of `bits` bits."""
    return (bits - LEAF_BITS) * (3 if compares else 2) + (1 << LEAF_BITS)


def _words(tensor: torch.Tensor) -> Words:
    """View an int64 tensor as rows of unsigned words."""
    view: Words = tensor.contiguous().numpy().view(np.uint64)
    return view


def _tensor(words: Words) -> torch.Tensor:
    return torch.from_numpy(words.view(np.int64))


class _Hash:
    """A fixed permutation made a hash, for up to `size` nodes at a time. Results hold until the next call."""

    def __init__(self, key: bytes, size: int) -> None:
        self.cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305  # a permutation, no more
        self.input = np.empty((size, 2), np.uint64)
        self.output = np.empty((size + 1, 2), np.uint64)  # the cipher wants room for one more block
        self.plain, self.room = self.input.data.cast("B"), self.output.data.cast("B")

    def __call__(self, low: Words, high: Words) -> tuple[Words, Words]:
        """Return the low and the high words of H of each node."""
        mixed, hashed = self.input[: len(low)], self.output[: len(low)]
        mixed[:, 0] = high
        np.bitwise_xor(high, low, out=mixed[:, 1])
        self.cipher.update_into(self.plain[: 16 * len(low)], self.room)
        hashed ^= mixed
        return hashed[:, 0], hashed[:, 1]


def _mask(bits: Words) -> Words:
    """Turn words whose lowest bit counts into all zeros or all ones."""
    mask: Words = np.negative(bits & _ONE)
    return mask


def _signed(words: Words, negative: Words) -> Words:
    """Negate the words where the mask is all ones."""
    return (words ^ negative) - negative


def _root(party: int, own: Words) -> Words:
    """Return a party's root: its own words, the control bit being its number."""
    root = own.copy()
    root[0] = (own[0] & ~_ONE) | np.uint64(party)
    return root


class _Dealing:
    """The two trees on the way to alpha, for one block of elements, and the corrections that follow from them.

    Party 0's nodes are kept, low and high words; party 1's are those xor the difference, all the way down.
    """

    def __init__(self, first: Words, second: Words) -> None:
        self.size = first.shape[1]
        self.nodes = first
        self.difference = first ^ second
        self.node_hash, self.value_hash = _Hash(_NODE_KEY, 2 * self.size), _Hash(_VALUE_KEY, 2 * self.size)
        self.path = np.zeros(self.size, np.uint64)  # what the shares along the path add up to

    def _both(self, tweak: int = 0) -> Words:
        """Return the nodes of party 0 and, behind them, those of party 1."""
        both = np.concatenate([self.nodes, self.nodes ^ self.difference], axis=1)
        both[0] ^= np.uint64(tweak)
        return both

    @property
    def negative(self) -> Words:
        """All ones where party 1 has the control bit, and so what is corrected counts with a minus."""
        return ~_mask(self.nodes[0])

    def values(self, choice: Words, payload: Words) -> Words:
        """Return the correction of a level's values; `choice` is all ones where alpha goes right.

        There x that go left are smaller than alpha, and must end with the payload; where alpha goes left, x that go
        right are larger, and must end with zero.
        """
        size = self.size
        left, right = self.value_hash(*self._both())
        gap_left, gap_right = left[size:] - left[:size], right[size:] - right[:size]
        swap = (gap_left ^ gap_right) & choice
        gap_keep, gap_lose = gap_left ^ swap, gap_right ^ swap
        signed = gap_lose - self.path + (choice & payload)
        self.path += signed - gap_keep
        return _signed(signed, self.negative)

    def step(self, choice: Words, word: Words) -> None:
        """Write the correction word, its low and high words in two rows, and go one level down."""
        size = self.size
        control = _mask(self.nodes[0])
        kept = self.nodes & choice
        lost = self.difference & ~choice
        for row, hashed in enumerate(self.node_hash(*self._both())):
            word[row] = hashed[:size] ^ hashed[size:] ^ lost[row]
            kept[row] ^= hashed[:size] ^ (control & word[row])
        self.nodes = kept

    def leaf(self, block: int) -> tuple[Words, Words]:
        """Return the corrections of two words of the leaf that make them zero less what the path has given."""
        size = self.size
        left, right = self.value_hash(*self._both(2 * block))
        return left[size:] - left[:size] - self.path, right[size:] - right[:size] - self.path


def _deal_block(alpha: Words, payload: Words | None, bits: int, dealing: _Dealing, out: Words) -> None:
    """Write the common rows for one block of elements. Without a payload the function is [x == alpha]."""
    row = 0
    for level in range(bits - 1, LEAF_BITS - 1, -1):
        choice = _mask(alpha >> np.uint64(level))
        if payload is not None:
            out[row + 2] = dealing.values(choice, payload)
        dealing.step(choice, out[row : row + 2])
        row += 2 if payload is None else 3
    last = alpha & _LEAVES
    for block in range(1 << (LEAF_BITS - 1)):
        for place, correction in enumerate(dealing.leaf(block), start=2 * block):
            gives = (last == place) if payload is None else (last > place)
            correction += gives if payload is None else gives * payload
            out[row + place] = _signed(correction, dealing.negative)


def common_words(
    alpha: torch.Tensor, payload: torch.Tensor | None, bits: int, owns: tuple[torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    """Compute the common part of both parties' keys, block by block.

    Args:
        alpha: The points, int64 words read as unsigned numbers of `bits` bits.
        payload: The value of f below alpha, element by element; None for f(x) = [x == alpha].
        bits: The number of bits of points.
        owns: The words of each party alone: uniform, two rows.
    """
    points = _words(alpha.reshape(-1))
    payloads = None if payload is None else _words(payload.reshape(-1))
    first, second = _words(owns[0]), _words(owns[1])
    common = np.empty((rows(bits, payload is not None), len(points)), np.uint64)
    for start in range(0, len(points), BLOCK):
        part = slice(start, start + BLOCK)
        dealing = _Dealing(_root(0, first[:, part]), _root(1, second[:, part]))
        _deal_block(points[part], None if payloads is None else payloads[part], bits, dealing, common[:, part])
    return _tensor(common)


def _keys(alpha: torch.Tensor, payload: torch.Tensor | None, bits: int, generator: Generator) -> tuple[Key, Key]:
    """Make the keys of both parties."""
    owns = generator.words(2, alpha.numel()), generator.words(2, alpha.numel())
    common = common_words(alpha, payload, bits, owns)
    return Key(owns[0], common), Key(owns[1], common)


def equal_keys(alpha: torch.Tensor, generator: Generator) -> tuple[Key, Key]:
    """Make two keys of f(x) = [x == alpha], for each element of an int64 tensor."""
    return _keys(alpha, None, 64, generator)


def compare_keys(
    alpha: torch.Tensor, generator: Generator, payload: torch.Tensor | None = None, bits: int = 64
) -> tuple[Key, Key]:
    """Make two keys of f(x) = payload * [x < alpha], for unsigned numbers of `bits` bits; payload 1 by default."""
    return _keys(alpha, torch.ones_like(alpha) if payload is None else payload, bits, generator)


def _evaluate_block(root: Words, common: Words, x: Words, bits: int, compares: bool) -> Words:
    """Walk down the tree towards x, for one block of elements, and return the sum that party 0 would hold."""
    low, high = root
    nodes, values = _Hash(_NODE_KEY, len(x)), _Hash(_VALUE_KEY, len(x))
    total = np.zeros(len(x), np.uint64)
    row = 0
    for level in range(bits - 1, LEAF_BITS - 1, -1):
        choice, control = _mask(x >> np.uint64(level)), _mask(low)
        if compares:
            left, right = values(low, high)
            total += left ^ ((left ^ right) & choice)
            total += control & common[row + 2]
        hashed_low, hashed_high = nodes(low, high)
        low = hashed_low ^ (choice & low) ^ (control & common[row])
        high = hashed_high ^ (choice & high) ^ (control & common[row + 1])
        row += 3 if compares else 2
    place = x & _LEAVES
    left, right = values(low ^ (place & ~_ONE), high)
    total += left ^ ((left ^ right) & _mask(place))
    total += _mask(low) & common[row + place.astype(np.intp), np.arange(len(x))]
    return total


def evaluate(party: int, key: Key, x: torch.Tensor, bits: int = 64) -> torch.Tensor:
    """Return the share that party 0 or 1 holds of f(x); x is public, read as unsigned numbers of `bits` bits."""
    own, common, points = _words(key.own), _words(key.common), _words(x.reshape(-1))
    if common.shape != (rows(bits, common.shape[0] > rows(bits, False)), len(points)) or own.shape != (2, len(points)):
        raise ValueError(f"The key is not for {len(points)} numbers of {bits} bits.")
    compares = common.shape[0] > rows(bits, False)
    result = np.empty(len(points), np.uint64)
    for start in range(0, len(points), BLOCK):
        part = slice(start, start + BLOCK)
        result[part] = _evaluate_block(_root(party, own[:, part]), common[:, part], points[part], bits, compares)
    return _tensor(result if party == 0 else np.negative(result)).reshape(x.shape)


def top_bit(words: torch.Tensor) -> torch.Tensor:
    """Return the highest bit of each word, as 0 or 1."""
    return words.lt(0).long()


def sign_words(mask: torch.Tensor, owns: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Compute the common part of both parties' keys for a test of signs.

    x = c - r is negative if its highest bit, c_top ^ r_top ^ [c_low < r_low], is 1: one comparison of 63 bits. Its
    payload is 1 - 2 r_top, so that r_top + payload * [c_low < r_low] is r_top ^ [c_low < r_low]. Right for every
    x of Z_2^64.

    Args:
        mask: r, uniform words.
        owns: The words of each party alone: uniform, two rows.
    """
    return common_words(mask, 1 - 2 * top_bit(mask), SIGN_BITS, owns)


def negative(party: int, key: Key, top: torch.Tensor, masked: torch.Tensor) -> torch.Tensor:
    """Return the share that party 0 or 1 holds of [x < 0] for c = x + r, with a share of the top bit of r."""
    flipped = top_bit(masked)
    share = (top + evaluate(party, key, masked, SIGN_BITS)) * (1 - 2 * flipped)
    return share + flipped if party == 0 else share
