"""RunDeals: the deals of one run at one party."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

import torch

from syft.exceptions import ProtocolError
from syft.mpc.dealer.deals import PartyContext, Shape, row_of
from syft.mpc.dealer.wire_protocol import DealerLink, digest, generator_for, label_of, plain

logger = logging.getLogger("syft.mpc")


class Corrections:
    """The tensors that the dealer sends to a party for one deal; fetched when the first is needed."""

    def __init__(self, fetch: Callable[[], memoryview]) -> None:
        self._fetch = fetch
        self._rest: memoryview | None = None
        self.bytes = 0

    @property
    def was_fetched(self) -> bool:
        """Whether the dealer had to send anything."""
        return self._rest is not None

    def __call__(self, shape: Shape) -> torch.Tensor:
        """Return the next correction."""
        if self._rest is None:
            self._rest = self._fetch()
        count = math.prod(shape)
        if len(self._rest) < 8 * count:
            raise ProtocolError("The dealer sent fewer bytes than the deal needs.")
        piece, self._rest = self._rest[: 8 * count], self._rest[8 * count :]
        self.bytes += len(piece)
        if not count:
            return torch.empty(shape, dtype=torch.int64)
        return torch.frombuffer(piece, dtype=torch.int64).view(shape)

    def check(self) -> None:
        """Raise if bytes are left over."""
        if self._rest:
            raise ProtocolError("The dealer sent more bytes than the deal needs.")


class RunDeals:
    """The deals of one run at one party; `base` is the digest of the protocol and its arguments."""

    def __init__(self, base: bytes, link: Callable[[], DealerLink]) -> None:
        self._base = base
        self._open = link
        self._link: DealerLink | None = None
        self._sequence: list[tuple[str, tuple[Any, ...]]] = []
        self.key = b""
        self.instance = 0
        self.generation = 0
        self.bytes = 0
        self._fetched = False

    def deal(self, kind: str, spec: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return this party's shares of a deal."""
        row = row_of(kind)
        spec = plain(spec)
        if self._link is None:
            self._link = self._open()
            self.key = digest(self._base, kind, spec)
            self.instance = self._link.begin(self.key)
            self.generation = self._link.generation
        position = len(self._sequence)
        self._sequence.append((kind, spec))
        label = label_of(self.key, self.instance, position, kind, spec)
        link = self._link
        corrections = Corrections(lambda: link.fetch(self.key, self.instance, position, kind, spec, label))
        context = PartyContext(generator_for(link.seed, label), corrections, link.last)
        dealt = tuple(row(context, *spec))
        corrections.check()
        self.bytes += corrections.bytes
        self._fetched |= corrections.was_fetched
        return dealt

    def end(self) -> None:
        """End a successful run; a lost dealer does not change its success."""
        if self._link is not None:
            try:
                self._link.end(self.key, self.instance, self._sequence, self._fetched)
            except ProtocolError as error:
                logger.info("The deals of a run could not be reported to the dealer: %s", type(error).__name__)

    def disagree(self, instance: int, generation: int) -> None:
        """Catch up with another party that used more deals."""
        if self._link is not None:
            self._link.catch_up(self.key, instance, generation)
