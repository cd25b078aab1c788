"""The dealer: correlated randomness for the parties, made by someone who is not one of them.

A table lists what can be dealt: each entry is a function over a `DealerContext`. The same function runs in three
places: where all parties share a process, at a dealer in a process of its own, and at each of its parties, which
expand uniform values from a seed. Only values that the dealer computes travel: corrections of shares to the last
party, and words that all parties may know (such as those of keys of function secret sharing) to every party.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from syft.core.generator import Generator
from syft.exceptions import SyftError
from syft.mpc.ring import arithmetic

Shape = tuple[int, ...]
Row = Callable[..., tuple[Any, ...]]
Compute = Callable[[], torch.Tensor]
DEALS: dict[str, Row] = {}
# The kinds with words that every party gets from the dealer.
WITH_COMMON: set[str] = set()


def deals(kind: str, common: bool = False) -> Callable[[Row], Row]:
    """Register what can be dealt: a function `(deck, *spec)` that returns what the deck gave it.

    Args:
        kind: the name of the row.
        common: whether the row deals words that every party gets (`deck.common`).
    """

    def register(row: Row) -> Row:
        if kind in DEALS:
            raise SyftError(f"There already is something dealt as {kind!r}.")
        DEALS[kind] = row
        if common:
            WITH_COMMON.add(kind)
        return row

    return register


def row_of(kind: str) -> Row:
    """Return a row of the table."""
    if kind not in DEALS:
        raise SyftError(f"Nothing is dealt as {str(kind)[:40]!r}.")
    return DEALS[kind]


class Dealt:
    """Something dealt, as one who knows all shares sees it.

    Args:
        shares: one share a party.
        xor: whether they are shares of bits.
        value: what they are shares of, if that is known already.
    """

    __slots__ = ("_value", "shares", "xor")

    def __init__(self, shares: list[torch.Tensor], xor: bool, value: torch.Tensor | None = None) -> None:
        self.shares = shares
        self.xor = xor
        self._value = value

    @property
    def value(self) -> torch.Tensor:
        """What the shares are shares of; for the dealer's eyes only."""
        if self._value is None:
            self._value = combine(self.shares, self.xor)
        return self._value


def combine(shares: list[torch.Tensor], xor: bool) -> torch.Tensor:
    """Return what shares are shares of."""
    if len(shares) == 1:
        return shares[0]
    join = torch.bitwise_xor if xor else arithmetic.add
    total: torch.Tensor = join(shares[0], shares[1])
    for share in shares[2:]:
        total = join(total, share)
    return total


class DealerContext:
    """What a row of the table draws from, at a place where all shares are known.

    Args:
        generators: one generator a party.
        once: returns common words that were computed for another party, or computes them; None computes them always.
    """

    def __init__(self, generators: list[Generator], once: Callable[[Compute], torch.Tensor] | None = None) -> None:
        self.generators = generators
        self._once = once
        # What the dealer sends to the last party, and to each of the others, in order.
        self.corrections: list[torch.Tensor] = []
        self.commons: list[torch.Tensor] = []

    def random(self, shape: Shape) -> Dealt:
        """Deal uniform shares of a uniform value."""
        return Dealt([generator.words(*shape) for generator in self.generators], False)

    def random_bits(self, shape: Shape) -> Dealt:
        """Deal uniform shares of uniform bits, 64 in a word."""
        return Dealt([generator.words(*shape) for generator in self.generators], True)

    def fixed(self, shape: Shape, compute: Compute) -> Dealt:
        """Deal shares of a value that the dealer computes."""
        value = compute()
        shares = [generator.words(*shape) for generator in self.generators[:-1]]
        last = arithmetic.sub(value, combine(shares, False))
        self.corrections.append(last)
        return Dealt([*shares, last], False, value)

    def fixed_bits(self, shape: Shape, compute: Compute) -> Dealt:
        """Deal shares of bits that the dealer computes, 64 in a word."""
        value = compute()
        shares = [generator.words(*shape) for generator in self.generators[:-1]]
        last = value ^ combine(shares, True)
        self.corrections.append(last)
        return Dealt([*shares, last], True, value)

    def common(self, shape: Shape, compute: Compute) -> Dealt:
        """Deal words that every party may know as they are; nothing is opened for them."""
        value = compute() if self._once is None else self._once(compute)
        self.corrections.append(value)
        self.commons.append(value)
        return Dealt([value] * len(self.generators), True, value)

    def sent(self) -> int:
        """Return how many bytes the dealer sends for what was dealt so far, to all parties together."""
        others = len(self.generators) - 1
        return sum(word.nbytes for word in self.corrections) + others * sum(word.nbytes for word in self.commons)


class PartyContext:
    """What a row of the table draws from at one party: its own shares, and nothing of the others.

    Args:
        generator: the generator whose key the dealer gave this party.
        received: returns what the dealer sent to this party, shape by shape.
        last: whether this is the last party, which gets the corrections of shares.
    """

    def __init__(self, generator: Generator, received: Callable[[Shape], torch.Tensor], last: bool) -> None:
        self.generator = generator
        self.received = received
        self.last = last

    def random(self, shape: Shape) -> torch.Tensor:
        """Take this party's share of a uniform value."""
        return self.generator.words(*shape)

    def fixed(self, shape: Shape, compute: Any = None) -> torch.Tensor:
        """Take this party's share of a value that the dealer computes."""
        return self.received(shape) if self.last else self.generator.words(*shape)

    def common(self, shape: Shape, compute: Any = None) -> torch.Tensor:
        """Take words that every party gets."""
        return self.received(shape)

    random_bits = random
    fixed_bits = fixed
