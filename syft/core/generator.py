"""Generator: the random numbers that hide data, from AES in counter mode.

Nothing here depends on `torch.manual_seed`, and torch's own generators are never used to hide anything. Small draws
are slices of a block drawn ahead, so that they cost no call of the cipher.
"""

from __future__ import annotations

import math
import os
import threading
from typing import Any

import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

KEY_BYTES = 16
# Words drawn ahead for small draws; a draw of at least a quarter of it is made on its own.
BLOCK = 8192
# The cipher runs over zeros piece by piece, so that its input stays in the processor's cache.
_ZEROS = bytes(1 << 18)


class Generator:
    """A stream of uniform 64-bit words that only who knows the key can tell from noise, or repeat.

    Args:
        key: 16 bytes; drawn from the operating system by default. Two generators of one key give the same words.
    """

    __slots__ = ("_block", "_encryptor", "_position")

    def __init__(self, key: bytes | None = None) -> None:
        key = os.urandom(KEY_BYTES) if key is None else key
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(key)}")
        self._encryptor: Any = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        self._block = torch.empty(0, dtype=torch.int64)
        self._position = 0

    def words(self, *shape: int) -> torch.Tensor:
        """Draw a tensor of int64, uniform over all 2^64 values."""
        count = math.prod(shape)
        if count * 4 >= BLOCK:
            return self._draw(count).view(shape)
        if self._position + count > len(self._block):
            self._block = self._draw(BLOCK)
            self._position = 0
        start = self._position
        self._position = start + count
        return self._block[start : self._position].view(shape)

    def bytes(self, count: int) -> bytes:
        """Draw bytes, for keys and ids."""
        return self._draw(-(-count // 8)).numpy().tobytes()[:count]

    def _draw(self, count: int) -> torch.Tensor:
        drawn = torch.empty(count, dtype=torch.int64)
        view = drawn.numpy().data.cast("B")
        for start in range(0, len(view), len(_ZEROS)):
            piece = view[start : start + len(_ZEROS)]
            self._encryptor.update_into(_ZEROS if len(piece) == len(_ZEROS) else _ZEROS[: len(piece)], piece)
        return drawn

    def __repr__(self) -> str:
        return "<Generator, AES-128 in counter mode>"


_threads = threading.local()


def local() -> Generator:
    """Return the generator of this thread, keyed by the operating system."""
    found: Generator | None = getattr(_threads, "generator", None)
    if found is None or _threads.pid != os.getpid():  # a forked process must not repeat its parent's words
        found = _threads.generator = Generator()
        _threads.pid = os.getpid()
    return found


def forget() -> None:
    """Drop the generator of this thread, so that the next use makes one with a fresh key."""
    _threads.generator = None
