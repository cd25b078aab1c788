"""Lockstep: all parties of a run in one process, driven step by step, without threads and without waiting."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from syft.core.generator import local
from syft.exceptions import SyftError
from syft.mpc.dealer.deals import DealerContext, combine, row_of
from syft.mpc.runtime.party import Batch, Deal, Exchange, Open, Party, PartyRequest, is_deal


class RunCost:
    """What protocols cost.

    Attributes:
        rounds: how often the parties waited for each other.
        bytes: bytes that the busiest party sent to other parties.
        dealt: bytes that the dealer sent.
        runs: how many protocols were run.
    """

    def __init__(self) -> None:
        self.rounds = 0
        self.bytes = 0
        self.dealt = 0
        self.runs = 0

    def add(self, cost: Any) -> None:
        """Add a run."""
        self.runs += 1
        self.rounds += cost.rounds
        self.bytes += cost.bytes
        self.dealt += cost.dealt

    def __repr__(self) -> str:
        return f"<{self.runs} runs, {self.rounds} rounds, {self.bytes} bytes a party, {self.dealt} bytes dealt>"


_tallies: list[RunCost] = []


@contextmanager
def count() -> Iterator[RunCost]:
    """Count rounds and bytes of the protocols run in this process inside a `with` block."""
    tally = RunCost()
    _tallies.append(tally)
    try:
        yield tally
    finally:
        _tallies[:] = [other for other in _tallies if other is not tally]


# Tests look at what each party learns: called with (receiver, sender, tensors); sender None is the dealer, and what
# a party was opened it is told by itself.
observers: list[Callable[[int, int | None, tuple[torch.Tensor, ...]], None]] = []


class LockstepParty(Party):
    """A party beside the others: what is public is computed by the first that asks, and used by all.

    Args:
        index: which one.
        count: how many parties hold shares.
        computed: the public values computed so far, common to all parties of the run.
    """

    __slots__ = ("_computed", "_position")

    def __init__(self, index: int, count: int, computed: list[Any]) -> None:
        super().__init__(index, count)
        self._computed = computed
        self._position = 0

    def public(self, function: Callable[..., Any], *args: Any) -> Any:
        """Compute a function of public values, once for all parties."""
        position = self._position
        self._position = position + 1
        if position == len(self._computed):
            self._computed.append([function, function(*args), 0])
        row = self._computed[position]
        known, result, asked = row
        if known is not function:
            raise SyftError("What is public is computed by every party, in the same order; this protocol does not.")
        row[2] = asked + 1
        if row[2] == self.count:  # a helper has no part in it
            row[1] = None
        return result


def parties(count: int, helper: bool = False) -> list[LockstepParty]:
    """Make the parties of a run, and a helper after them if one takes part."""
    computed: list[Any] = []
    return [LockstepParty(index, count, computed) for index in range(count + helper)]


def drive(coroutines: list[Coroutine[Any, Any, Any]], count: int, tally: RunCost | None = None) -> list[Any]:
    """Run the protocol of every party to its end, and return what each of them returned.

    Args:
        coroutines: one a party, and one for a helper if it takes part.
        count: how many parties hold shares.
        tally: where the cost of this run is added, if somebody wants to know.
    """
    lockstep = Lockstep(count)
    answers: list[Any] = [None] * len(coroutines)
    try:
        while True:
            requests, results = [], []
            for coroutine, answer in zip(coroutines, answers, strict=True):
                try:
                    requests.append(coroutine.send(answer))
                except StopIteration as stop:
                    results.append(stop.value)
            if not requests:
                lockstep.settle(tally)
                return results
            if results:
                raise SyftError("A party ended its protocol while the others went on: their inputs do not fit.")
            answers = lockstep.serve(requests)
    finally:
        for coroutine in coroutines:
            coroutine.close()


class Lockstep:
    """Answers the requests of all parties of one run.

    Args:
        count: how many parties hold shares.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.rounds = 0
        self.sent = [0] * (count + 1)
        self.dealt = 0
        self.deck = DealerContext([local()] * count)

    def serve(self, requests: list[Any]) -> list[Any]:
        """Answer one request of each party."""
        if not is_deal(requests[0]):
            self.rounds += 1
        return self._answer(requests)

    def _answer(self, requests: list[Any]) -> list[Any]:
        kinds = {type(request) for request in requests}
        if len(kinds) != 1:
            raise SyftError("The parties of a run ask for different things: their inputs do not fit.")
        return _SERVE[kinds.pop()](self, requests)

    def _batch(self, requests: list[Batch]) -> list[Any]:
        if len({len(request.requests) for request in requests}) != 1:
            raise SyftError("The parties of a run ask for different things: their inputs do not fit.")
        columns = zip(*[request.requests for request in requests], strict=True)
        return [list(row) for row in zip(*[self._answer(list(column)) for column in columns], strict=True)]

    def _open(self, requests: list[Open]) -> list[Any]:
        if len(requests) != self.count:
            raise SyftError("Nothing is opened while the dealer looks on as a helper: it knows the masks.")
        if len({(len(request.shares), request.xor) for request in requests}) != 1:
            raise SyftError("The parties of a run open different things: their inputs do not fit.")
        opened = []
        for position, share in enumerate(requests[0].shares):
            shares = [request.shares[position] for request in requests]
            if any(other.shape != share.shape for other in shares):
                raise SyftError("The shares of one value have different shapes, so it can't be opened.")
            opened.append(combine(shares, requests[0].xor))
        for index, request in enumerate(requests):
            self.sent[index] += (self.count - 1) * sum(share.nbytes for share in request.shares)
        for observe in observers:
            for receiver in range(len(requests)):
                for sender in range(self.count):
                    seen = tuple(opened) if sender == receiver else requests[sender].shares
                    observe(receiver, sender, seen)
        return [tuple(opened)] * len(requests)

    def _exchange(self, requests: list[Exchange]) -> list[Any]:
        answers: list[dict[int, Any]] = []
        for receiver, request in enumerate(requests):
            answers.append({sender: requests[sender].outgoing[receiver] for sender in request.sources})
        for sender, request in enumerate(requests):
            for receiver, tensors in request.outgoing.items():
                self.sent[sender] += sum(tensor.nbytes for tensor in tensors)
                for observe in observers:
                    observe(receiver, sender, tensors)
        return answers

    def _deal(self, requests: list[Deal]) -> list[Any]:
        if any(request.kind != requests[0].kind or request.spec != requests[0].spec for request in requests):
            raise SyftError("The parties of a run ask the dealer for different things: their inputs do not fit.")
        dealt = row_of(requests[0].kind)(self.deck, *requests[0].spec)
        # Counted and let go of: a run may be long.
        self.dealt += self.deck.sent()
        self.deck.corrections.clear()
        self.deck.commons.clear()
        answers = [tuple([item.shares[index] for item in dealt]) for index in range(self.count)]
        for observe in observers:
            for receiver, shares in enumerate(answers):
                observe(receiver, None, shares)
        return [*answers, *[()] * (len(requests) - self.count)]

    def settle(self, own: RunCost | None = None) -> None:
        """Add what the run cost to what is being counted."""
        for tally in (*_tallies, own) if own is not None else _tallies:
            tally.runs += 1
            tally.rounds += self.rounds
            tally.bytes += max(self.sent)
            tally.dealt += self.dealt


_SERVE: dict[type[PartyRequest], Callable[[Lockstep, list[Any]], list[Any]]] = {
    Open: Lockstep._open,
    Deal: Lockstep._deal,
    Exchange: Lockstep._exchange,
    Batch: Lockstep._batch,
}
