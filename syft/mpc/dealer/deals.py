"""Deals: correlated randomness for the parties, made by a dealer that is not one of them.

A table lists the kinds of deals: each entry is a function over a `DealerContext`. The same function runs in three
places: where all parties share a process, at a dealer in a process of its own, and at each of its parties, which
expand uniform values from a seed. Only values that the dealer computes are sent: corrections of shares to the last
party, and public tensors (such as parts of function secret sharing keys) to every party.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import torch

from syft.core.generator import Generator
from syft.core.redefinition import is_redefinition
from syft.exceptions import ProtocolError, SyftError
from syft.mpc.ring import arithmetic

Shape = tuple[int, ...]
Row = Callable[..., tuple[Any, ...]]
Compute = Callable[[], torch.Tensor]
_WORD = 8
# Draws of one deal; a row draws some dozens at most.
MAX_DRAWS = 10_000
# Copies of each value that exist at once beside one for each party: the value, its correction, and temporaries.
_COPIES = 4
# Limits bytes that wait for the other parties; dropped tensors are computed again.
COMMON_BYTES = 128 * 2**20
# The generation of the group, the label of the deal, and the index of the tensor in it.
BroadcastKey = tuple[int, bytes, int]
DEALS: dict[str, Row] = {}
# The kinds with public tensors, which every party gets from the dealer.
WITH_COMMON: set[str] = set()


def deals(kind: str, common: bool = False) -> Callable[[Row], Row]:
    """Register a kind of deal: a function `(context, *spec)`; `common` if it deals public tensors.

    A function that is defined again, as when a notebook cell runs twice, replaces the earlier one.
    """

    def register(row: Row) -> Row:
        if kind in DEALS and not is_redefinition(DEALS[kind], row):
            raise SyftError(f"There already is a deal {kind!r}, of {DEALS[kind].__module__}. Choose another name.")
        DEALS[kind] = row
        (WITH_COMMON.add if common else WITH_COMMON.discard)(kind)
        return row

    return register


def row_of(kind: str) -> Row:
    """Return a row of the table."""
    if kind not in DEALS:
        raise SyftError(f"There is no deal {str(kind)[:40]!r}.")
    return DEALS[kind]


class Dealt:
    """A dealt value with the shares of all parties; `xor` if they are shares of bits."""

    __slots__ = ("_value", "shares", "xor")

    def __init__(self, shares: list[torch.Tensor], xor: bool, value: torch.Tensor | None = None) -> None:
        self.shares = shares
        self.xor = xor
        self._value = value

    @property
    def value(self) -> torch.Tensor:
        """The shared value; only the dealer may use it."""
        if self._value is None:
            self._value = combine(self.shares, self.xor)
        return self._value


def combine(shares: list[torch.Tensor], xor: bool) -> torch.Tensor:
    """Return the value of shares."""
    if len(shares) == 1:
        return shares[0]
    join = torch.bitwise_xor if xor else arithmetic.add
    total: torch.Tensor = join(shares[0], shares[1])
    for share in shares[2:]:
        total = join(total, share)
    return total


class DealerContext:
    """The random values of a deal at the dealer, which knows all shares; `once` caches public tensors."""

    def __init__(self, generators: list[Generator], once: Callable[[Compute], torch.Tensor] | None = None) -> None:
        self.generators = generators
        self._once = once
        # The tensors for the last party, and for each of the others, in order.
        self.corrections: list[torch.Tensor] = []
        self.commons: list[torch.Tensor] = []

    def random(self, shape: Shape, xor: bool = False) -> Dealt:
        """Deal uniform shares of a uniform value."""
        return Dealt([generator.words(*shape) for generator in self.generators], xor)

    def random_bits(self, shape: Shape) -> Dealt:
        """Deal uniform shares of uniform bits, 64 in a word."""
        return self.random(shape, xor=True)

    def fixed(self, shape: Shape, compute: Compute, xor: bool = False) -> Dealt:
        """Deal shares of a value that the dealer computes."""
        value = compute()
        shares = [generator.words(*shape) for generator in self.generators[:-1]]
        others = combine(shares, xor)
        last = value ^ others if xor else arithmetic.sub(value, others)
        self.corrections.append(last)
        return Dealt([*shares, last], xor, value)

    def fixed_bits(self, shape: Shape, compute: Compute) -> Dealt:
        """Deal shares of bits that the dealer computes, 64 in a word."""
        return self.fixed(shape, compute, xor=True)

    def common(self, shape: Shape, compute: Compute) -> Dealt:
        """Deal a public tensor: every party gets it as it is."""
        value = compute() if self._once is None else self._once(compute)
        self.corrections.append(value)
        self.commons.append(value)
        return Dealt([value] * len(self.generators), True, value)

    def sent(self) -> int:
        """Return the bytes that the dealer sends to all parties together for the deals so far."""
        others = len(self.generators) - 1
        return sum(word.nbytes for word in self.corrections) + others * sum(word.nbytes for word in self.commons)


class PartyContext:
    """The random values of a deal at one party: its own shares, and the tensors received from the dealer."""

    def __init__(self, generator: Generator, received: Callable[[Shape], torch.Tensor], last: bool) -> None:
        self.generator = generator
        self.received = received
        self.last = last

    def random(self, shape: Shape) -> torch.Tensor:
        """Return this party's share of a uniform value."""
        return self.generator.words(*shape)

    def fixed(self, shape: Shape, compute: Compute | None = None) -> torch.Tensor:
        """Return this party's share of a value that the dealer computes."""
        return self.received(shape) if self.last else self.generator.words(*shape)

    def common(self, shape: Shape, compute: Compute | None = None) -> torch.Tensor:
        """Return a public tensor."""
        return self.received(shape)

    random_bits = random
    fixed_bits = fixed


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


class Broadcasts:
    """Tensors for every party of a group, computed for the first one and stored for the others."""

    def __init__(self) -> None:
        # The tensor, and the number of parties that still need it.
        self._stored: dict[BroadcastKey, tuple[torch.Tensor, int]] = {}
        self._bytes = 0
        self._computing: set[BroadcastKey] = set()
        self._changed = threading.Condition()

    def get(self, key: BroadcastKey, others: int, compute: Compute) -> torch.Tensor:
        """Return a tensor that was computed for another party, or compute it and store it for the other parties."""
        with self._changed:
            while key in self._computing:
                self._changed.wait()
            if key in self._stored:
                return self._pop(key)
            self._computing.add(key)
        words = None
        try:
            words = compute()
        finally:
            with self._changed:
                self._computing.remove(key)
                if words is not None:
                    self._store(key, words, others)
                self._changed.notify_all()
        return words

    def _store(self, key: BroadcastKey, words: torch.Tensor, others: int) -> None:
        self._stored[key] = (words, others)
        self._bytes += words.nbytes
        while self._bytes > COMMON_BYTES:
            self._drop(next(iter(self._stored)))

    def _pop(self, key: BroadcastKey) -> torch.Tensor:
        words, others = self._stored[key]
        if others > 1:
            self._stored[key] = (words, others - 1)
        else:
            self._drop(key)
        return words

    def _drop(self, key: BroadcastKey) -> None:
        self._bytes -= self._stored.pop(key)[0].nbytes

    def forget(self, generation: int) -> None:
        """Drop all tensors of a group."""
        with self._changed:
            for key in [key for key in self._stored if key[0] == generation]:
                self._drop(key)
