"""Party: the interface of a protocol to its runtime: its index, the dealer, and the other parties.

A protocol is an `async def` over a party and its shares. It has no connections itself: each `await` passes a request
to the runtime that drives it, which is either all parties in one process (`lockstep`) or one party of several
processes (`network`). The same protocol runs under both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import torch

MAX_PARTIES = 64
Tensors = tuple[torch.Tensor, ...]
PartyCoroutine = Coroutine[Any, Any, Any]
Protocol = Callable[..., PartyCoroutine]


class PartyRequest:
    """A request of a protocol; awaiting it passes it to the runtime."""

    __slots__ = ()

    def __await__(self) -> Generator[PartyRequest, Any, Any]:
        answer = yield self
        return answer


@dataclasses.dataclass(slots=True)
class Open(PartyRequest):
    """Open some values to every party; every party sends its shares of them. Shares of bits are xored."""

    shares: Tensors
    xor: bool = False


@dataclasses.dataclass(slots=True)
class Deal(PartyRequest):
    """Get this party's shares of a deal."""

    kind: str
    spec: tuple[Any, ...]


@dataclasses.dataclass(slots=True)
class Exchange(PartyRequest):
    """Send tensors to some parties, by index, and wait for tensors from some."""

    outgoing: dict[int, Tensors]
    sources: tuple[int, ...]


@dataclasses.dataclass(slots=True)
class Batch(PartyRequest):
    """Several requests that share a round; the answer is a list of their answers."""

    requests: list[Any]


def is_deal(request: PartyRequest) -> bool:
    """Return whether a request is a deal, which needs no round."""
    return is_deal(request.requests[0]) if type(request) is Batch else type(request) is Deal


class Party:
    """One party of a run; a helper has the index after the last party."""

    __slots__ = ("count", "first", "index", "is_helper")

    def __init__(self, index: int, count: int) -> None:
        self.index = index
        self.count = count
        # Public constants are added by one party only.
        self.first = index == 0
        self.is_helper = index >= count

    def open(self, *shares: torch.Tensor) -> Open:
        """Open values to every party: in one round. Returns a tuple."""
        return Open(shares)

    def open_bits(self, *shares: torch.Tensor) -> Open:
        """Open packed bits to every party: in one round. Returns a tuple."""
        return Open(shares, True)

    def deal(self, kind: str, *spec: object) -> Deal:
        """Get this party's shares of a deal. Returns a tuple."""
        return Deal(kind, spec)

    def exchange(self, outgoing: dict[int, Tensors], sources: tuple[int, ...]) -> Exchange:
        """Send tensors to some parties and get tensors from some, in one round. Returns a dict."""
        return Exchange(outgoing, sources)

    def public(self, function: Callable[..., Any], *args: object) -> Any:
        """Compute a function of public values; where all parties share a process, once for all of them.

        The function must be the same object at every party: one of a module, not a lambda of the protocol.
        """
        return function(*args)

    async def together(self, *protocols: Coroutine[Any, Any, Any]) -> list[Any]:
        """Run independent protocols at the same time: their openings share rounds."""
        if len(protocols) == 1:
            return [await protocols[0]]
        try:
            return await self._side_by_side(protocols)
        finally:
            for protocol in protocols:  # unfinished ones, if one failed
                protocol.close()

    async def _side_by_side(self, protocols: tuple[Coroutine[Any, Any, Any], ...]) -> list[Any]:
        results: list[Any] = [None] * len(protocols)
        waiting: dict[int, Any] = {}
        answers: dict[int, Any] = dict.fromkeys(range(len(protocols)))
        while True:
            for i, answer in answers.items():
                try:
                    waiting[i] = protocols[i].send(answer)
                except StopIteration as stop:
                    results[i] = stop.value
            if not waiting:
                return results
            # Deals need no round, so all of them come before the next opening.
            turn = [i for i in waiting if is_deal(waiting[i])] or list(waiting)
            replies = await Batch([waiting.pop(i) for i in turn])
            answers = dict(zip(turn, replies, strict=True))
