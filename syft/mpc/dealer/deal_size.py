"""DealSize: how much memory a deal takes, found by running its function without drawing anything."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from syft.exceptions import ProtocolError
from syft.mpc.dealer.deals import Shape, row_of

_WORD = 8
# Draws of one deal; a row draws some dozens at most.
MAX_DRAWS = 10_000
# Copies of each value that are there at once beyond one for each party: the value, its correction, and what
# computing it takes.
_COPIES = 4


class DealSize:
    """Stands for a `Deck`: adds up what would be drawn, and draws nothing.

    Args:
        parties: the number of parties.
        limit: bytes beyond which the deal is refused.
    """

    def __init__(self, parties: int, limit: int) -> None:
        self.bytes = 0
        self._each = _WORD * (parties + _COPIES)
        self._limit = limit
        self._draws = 0

    def random(self, shape: Shape) -> None:
        """Count a uniform value."""
        self._count(shape, self._each)

    def common(self, shape: Shape, compute: Callable[[], Any]) -> None:
        """Count words that every party gets, and that are no shares."""
        self._count(shape, _WORD * _COPIES)

    def _count(self, shape: Shape, each: int) -> None:
        self._draws += 1
        if self._draws > MAX_DRAWS or len(shape) > 64:
            raise ProtocolError("This is not a deal that the dealer makes.")
        if not all(type(size) is int and size >= 0 for size in shape):
            raise ProtocolError("The sizes of what is dealt are whole numbers.")
        self.bytes += each * math.prod(shape)
        if self.bytes > self._limit:
            raise ProtocolError(f"This deal takes more than the {self._limit} bytes that are left for it.")

    def fixed(self, shape: Shape, compute: Callable[[], Any]) -> None:
        """Count a value that the dealer would compute."""
        self.random(shape)

    random_bits = random
    fixed_bits = fixed


def bytes_of_deal(kind: str, spec: tuple[Any, ...], parties: int, limit: int) -> int:
    """Return the bytes that a deal takes at the dealer.

    Raises:
        ProtocolError: that is more than the limit.
    """
    gauge = DealSize(parties, limit)
    row_of(kind)(gauge, *spec)
    return gauge.bytes
