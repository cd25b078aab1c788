"""Bit planes: the bits of many words laid out plane by plane, 64 bits of a plane in one word.

Plane b of a list of words holds bit b of each of them. Whatever works bit by bit on all words then works on whole
planes, and levels of a tree over the bits become smaller and smaller, without gaps.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch

WORD = 64
_MASKS = (
    (32, 0x00000000FFFFFFFF),
    (16, 0x0000FFFF0000FFFF),
    (8, 0x00FF00FF00FF00FF),
    (4, 0x0F0F0F0F0F0F0F0F),
    (2, 0x3333333333333333),
    (1, 0x5555555555555555),
)
# Words are kept lowest octet first, on every machine that torch runs on.
_ORDER: Literal["little"] = "little"
# Words of a plane in a block: all 64 planes of a block stay in the cache.
_PIECE = 512


def width(count: int) -> int:
    """Return the number of words of a plane over `count` words."""
    return -(-count // WORD)


def to_planes(words: torch.Tensor) -> torch.Tensor:
    """Return the 64 planes of words given in one dimension; padded with zeros to a whole word."""
    flat = words.numpy().reshape(-1)
    size = width(flat.size)
    if size * WORD != flat.size:
        padded = np.zeros(size * WORD, dtype=np.int64)
        padded[: flat.size] = flat
        flat = padded
    planes = np.empty((WORD, size), dtype=np.int64)
    blocks = flat.reshape(size, WORD)
    for start in range(0, size, _PIECE):
        piece = blocks[start : start + _PIECE].T.copy()
        _transpose(piece)
        planes[:, start : start + _PIECE] = piece
    return torch.from_numpy(planes)


def _transpose(rows: np.ndarray[Any, Any]) -> None:
    """Transpose every 64x64 block of bits in place: bit j of row i is swapped with bit i of row j.

    With numpy, whose calls take a third of the time of torch's where there are few words.
    """
    size = rows.shape[1]
    spare = np.empty(WORD // 2 * size, dtype=np.int64)
    for step, mask in _MASKS:
        halves = rows.reshape(WORD // (2 * step), 2, step, size)
        low, high = halves[:, 0], halves[:, 1]
        swapped = spare.reshape(low.shape)
        np.right_shift(low, step, out=swapped)
        np.bitwise_xor(swapped, high, out=swapped)
        np.bitwise_and(swapped, mask, out=swapped)
        np.bitwise_xor(high, swapped, out=high)
        np.left_shift(swapped, step, out=swapped)
        np.bitwise_xor(low, swapped, out=low)


def unpack(plane: torch.Tensor, count: int) -> torch.Tensor:
    """Return the bits of one plane as `count` words of 0 or 1."""
    octets = np.ascontiguousarray(plane.numpy()).view(np.uint8)
    bits = np.unpackbits(octets, axis=-1, count=count, bitorder=_ORDER)
    return torch.from_numpy(bits.astype(np.int64))


def pack(bits: torch.Tensor) -> torch.Tensor:
    """Return words of 0 or 1, in the last dimension, as planes."""
    count = bits.shape[-1]
    size = width(count)
    if size * WORD != count:
        bits = torch.nn.functional.pad(bits, (0, size * WORD - count))
    grouped = bits.reshape(*bits.shape[:-1], size, WORD)
    return (grouped << torch.arange(WORD)).sum(-1)
