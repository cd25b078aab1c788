"""Lockstep: all parties of a run in one process, driven step by step, without threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from syft.core.generator import local
from syft.exceptions import SyftError
from syft.mpc.dealer.deals import DealerContext, combine, row_of
from syft.mpc.runtime import cost_meter
from syft.mpc.runtime.party import Batch, Deal, Exchange, Open, Party, PartyCoroutine, PartyRequest, is_deal

# For tests of the parties' views: called with (receiver, sender, tensors). The sender is None for the dealer, and the
# receiver itself for opened values.
observers: list[Callable[[int, int | None, tuple[torch.Tensor, ...]], None]] = []


class LockstepParty(Party):
    """A party in one process with the others: the first one computes public values for all."""

    __slots__ = ("_computed", "_position")

    def __init__(self, index: int, count: int, computed: list[Any]) -> None:
        super().__init__(index, count)
        self._computed = computed
        self._position = 0

    def public(self, function: Callable[..., Any], *args: object) -> Any:
        """Compute a function of public values, once for all parties."""
        position = self._position
        self._position = position + 1
        if position == len(self._computed):
            self._computed.append([function, function(*args), 0])
        row = self._computed[position]
        first_function, result, uses = row
        if first_function is not function:
            raise SyftError("This protocol computes public values in another order at each party.")
        row[2] = uses + 1
        if row[2] == self.count:  # a helper does not use it
            row[1] = None
        return result


def parties(count: int, helper: bool = False) -> list[LockstepParty]:
    """Make the parties of a run, and a helper after them if one takes part."""
    computed: list[Any] = []
    return [LockstepParty(index, count, computed) for index in range(count + helper)]


def drive(coroutines: list[PartyCoroutine], count: int, key: object = None) -> list[Any]:
    """Run the protocol of every party to its end, and return their results."""
    lockstep, started = Lockstep(count), time.perf_counter()
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
                if cost_meter.meters:
                    seconds = time.perf_counter() - started
                    cost = cost_meter.RunCost(seconds, lockstep.rounds, max(lockstep.sent), lockstep.dealt, 1)
                    cost_meter.note(key, cost)
                return results
            if results:
                raise SyftError("A party ended its protocol before the others: their inputs differ.")
            answers = lockstep.serve(requests)
    finally:
        for coroutine in coroutines:
            coroutine.close()


class Lockstep:
    """Answers the requests of all parties of one run."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.rounds = 0
        self.sent = [0] * (count + 1)
        self.dealt = 0
        self.dealer = DealerContext([local()] * count)

    def serve(self, requests: list[Any]) -> list[Any]:
        """Answer one request of each party."""
        if not is_deal(requests[0]):
            self.rounds += 1
        return self._answer(requests)

    def _answer(self, requests: list[Any]) -> list[Any]:
        kinds = {type(request) for request in requests}
        if len(kinds) != 1:
            raise SyftError("The parties of a run made different requests: their inputs differ.")
        return _SERVE[kinds.pop()](self, requests)

    def _batch(self, requests: list[Batch]) -> list[Any]:
        if len({len(request.requests) for request in requests}) != 1:
            raise SyftError("The parties of a run made different requests: their inputs differ.")
        columns = zip(*[request.requests for request in requests], strict=True)
        return [list(row) for row in zip(*[self._answer(list(column)) for column in columns], strict=True)]

    def _open(self, requests: list[Open]) -> list[Any]:
        if len(requests) != self.count:
            raise SyftError("A run with the dealer as a helper can't open values: the dealer knows the masks.")
        if len({(len(request.shares), request.xor) for request in requests}) != 1:
            raise SyftError("The parties of a run opened different numbers of values: their inputs differ.")
        opened = []
        for position, share in enumerate(requests[0].shares):
            shares = [request.shares[position] for request in requests]
            if any(other.shape != share.shape for other in shares):
                raise SyftError("The shares of a value have different shapes, so it can't be opened.")
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
            raise SyftError("The parties of a run made different requests to the dealer: their inputs differ.")
        dealt = row_of(requests[0].kind)(self.dealer, *requests[0].spec)
        # Dropped after counting, because a run may be long.
        self.dealt += self.dealer.sent()
        self.dealer.corrections.clear()
        self.dealer.commons.clear()
        answers = [tuple([item.shares[index] for item in dealt]) for index in range(self.count)]
        for observe in observers:
            for receiver, shares in enumerate(answers):
                observe(receiver, None, shares)
        return [*answers, *[()] * (len(requests) - self.count)]


_SERVE: dict[type[PartyRequest], Callable[[Lockstep, list[Any]], list[Any]]] = {
    Open: Lockstep._open,
    Deal: Lockstep._deal,
    Exchange: Lockstep._exchange,
    Batch: Lockstep._batch,
}
