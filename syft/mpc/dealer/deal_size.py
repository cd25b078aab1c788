"""DealSize: the memory that a deal needs, computed by running its function without drawing random values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from syft.exceptions import ProtocolError
from syft.mpc.dealer.deals import Shape, row_of

_WORD = 8
# Draws of one deal; a row draws some dozens at most.
MAX_DRAWS = 10_000
# Copies of each value that exist at once beside one for each party: the value, its correction, and temporaries.
_COPIES = 4


class DealSize:
    """A `DealerContext` that adds up sizes and draws nothing; a deal beyond the limit is refused."""

    def __init__(self, parties: int, limit: int) -> None:
        self.bytes = 0
        self._each = _WORD * (parties + _COPIES)
        self._limit = limit
        self._draws = 0

    def random(self, shape: Shape) -> None:
        """Count a uniform value."""
        self._count(shape, self._each)

    def common(self, shape: Shape, compute: Callable[[], Any]) -> None:
        """Count a broadcast tensor."""
        self._count(shape, _WORD * _COPIES)

    def _count(self, shape: Shape, each: int) -> None:
        self._draws += 1
        if self._draws > MAX_DRAWS or len(shape) > 64:
            raise ProtocolError(f"A deal draws at most {MAX_DRAWS} tensors of at most 64 dimensions.")
        if not all(type(size) is int and size >= 0 for size in shape):
            raise ProtocolError("The shapes of a deal are non-negative integers.")
        self.bytes += each * math.prod(shape)
        if self.bytes > self._limit:
            raise ProtocolError(f"This deal needs more than the {self._limit} bytes that are left.")

    def fixed(self, shape: Shape, compute: Callable[[], Any]) -> None:
        """Count a value that the dealer computes."""
        self.random(shape)

    random_bits = random
    fixed_bits = fixed


def bytes_of_deal(kind: str, spec: tuple[Any, ...], parties: int, limit: int) -> int:
    """Return the bytes that a deal needs at the dealer; raises ProtocolError if they exceed the limit."""
    gauge = DealSize(parties, limit)
    row_of(kind)(gauge, *spec)
    return gauge.bytes
