"""How the answers of a round are collected: in the clear, added up in the order of the clients or one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import torch

from syft.exceptions import FederatedError
from syft.federated.server.traffic import Traffic
from syft.federated.strategies.strategy import Answer, Round, Strategy, Total

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class Aggregation(Protocol):
    """Collects the answers of the rounds of one run.

    Attributes:
        least: how many clients a round has at least.
        metrics: what clients told together in the last round, by name, if they do not tell it one by one.
        left_out: who dropped out before it was asked to train, and why.
        refused: whose answers were not counted at the end of the last round, and why.
        traffic: what calls of its own carry.
    """

    least: int
    metrics: dict[str, Any]
    left_out: dict[str, str]
    refused: dict[str, str]
    traffic: Traffic

    def left(self, count: int) -> int:
        """Return the number of clients that must be left at the end of a round that began with `count`."""
        ...

    def begin(self, round: Round, clients: Mapping[str, Any], strategy: Strategy) -> dict[str, dict[str, Any]]:
        """Begin a round: return the terms to add for each client that takes part, by its name.

        Args:
            round: the round.
            clients: the clients that were chosen, by name, in their order; each has `call(name, payload, timeout)`.
            strategy: the strategy of the run.

        Returns:
            Settings by the name of a term, for each client; a client that is left out here is not asked to train.
        """
        ...

    def add(self, client: str, result: dict[str, Any]) -> None:
        """Take the answer of a client to "train"; raises FederatedError if it is not what it should be."""
        ...

    def drop(self, client: str) -> None:
        """Take note that a client will not answer in this round any more."""
        ...

    def finish(self, least: int = 1) -> Total:
        """End the round with those who answered, and return what they gave together.

        Args:
            least: how many have to count; with fewer nothing is revealed, and FederatedError raised.
        """
        ...


class PlainAggregation:
    """The server sees each answer. For a linear strategy it keeps only their sum."""

    least = 1

    def __init__(self) -> None:
        self.metrics: dict[str, Any] = {}
        self.left_out: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.traffic = Traffic()
        self._strategy: Strategy
        self._round: Round
        self._forget()

    def left(self, count: int) -> int:
        """Return the number of clients that must be left at the end of a round that began with `count`."""
        return 1

    def _forget(self) -> None:
        """Begin with no answers."""
        self._sum: torch.Tensor | None = None
        self._extras: dict[str, torch.Tensor] = {}
        self._weight = 0.0
        self._answers: list[Answer] = []
        self._order: list[str] = []
        self._count = 0
        # Answers that came before one of a client further ahead: sums are made in the order of the clients, so that
        # the same answers give the same sum, whoever is quicker.
        self._waiting: dict[str, Answer] = {}

    def begin(self, round: Round, clients: Mapping[str, Any], strategy: Strategy) -> dict[str, dict[str, Any]]:
        """Begin a round; nothing is asked of the clients."""
        self._forget()
        self._round, self._strategy, self._order = round, strategy, list(clients)
        return {name: {} for name in clients}

    def add(self, client: str, result: dict[str, Any]) -> None:
        """Take the answer of a client."""
        answer = checked(client, result, self._round, self._strategy)
        if not self._strategy.is_linear:
            self._answers.append(answer)
            return
        self._waiting[client] = answer
        self._go_on()

    def drop(self, client: str) -> None:
        """Wait for a client no longer."""
        if self._strategy.is_linear and client in self._order:
            self._order.remove(client)
            self._go_on()

    def _go_on(self) -> None:
        while self._order and self._order[0] in self._waiting:
            self._take(self._waiting.pop(self._order.pop(0)))

    def _take(self, answer: Answer) -> None:
        weight = float(answer.samples) if self._strategy.weighted else 1.0
        if self._sum is None:
            self._sum = torch.zeros(self._round.layout.size, dtype=torch.float64)
            self._extras = {name: torch.zeros_like(v, dtype=torch.float64) for name, v in answer.extras.items()}
        self._sum.add_(answer.update, alpha=weight)
        for name, vector in answer.extras.items():
            self._extras[name].add_(vector)
        self._weight += weight
        self._count += 1

    def finish(self, least: int = 1) -> Total:
        """Return what the clients gave together."""
        if not self._strategy.is_linear:
            place = {name: number for number, name in enumerate(self._order)}
            return self._strategy.combine(sorted(self._answers, key=lambda a: place[a.client]), self._round)
        for name in self._order:
            if name in self._waiting:
                self._take(self._waiting.pop(name))
        if self._sum is None or self._weight <= 0:
            raise FederatedError("No client with samples answered, so there is nothing to take the mean of.")
        extras = {name: vector / self._count for name, vector in self._extras.items()}
        return Total(self._sum / self._weight, self._weight, self._count, extras)


def checked(client: str, result: Any, round: Round, strategy: Strategy) -> Answer:
    """Return the answer of a client, or raise: it may be anything that a stranger can write."""
    dtype = round.layout.dtype
    update = _vector(client, "update", result, round.layout.size, dtype)
    samples = result.get("samples")
    if type(samples) is not int or not 0 <= samples < 2**53:
        raise FederatedError(f"Client {client!r} did not say how many samples it has.")
    extras = {name: _vector(client, name, result, round.layout.parameters, dtype) for name in strategy.extras}
    return Answer(client, update, samples, extras)


def is_plain(vector: torch.Tensor) -> bool:
    """Say whether the numbers of a vector can be read: of a usual kind, one after the other, in memory."""
    return vector.dtype in _FLOATS and vector.layout is torch.strided and vector.device.type == "cpu"


def _vector(client: str, name: str, result: object, size: int, dtype: torch.dtype) -> torch.Tensor:
    vector = result.get(name) if isinstance(result, dict) else None
    if type(vector) is not torch.Tensor or vector.shape != (size,) or not is_plain(vector):
        raise FederatedError(f"Client {client!r} did not answer with {name}: one vector of {size} numbers.")
    vector = vector.detach().to(dtype)  # what is finite in a wider dtype may not be so in that of the model
    # Whatever is not finite shows in the sum, which is quicker to find; a finite sum of large numbers may overflow.
    if not math.isfinite(vector.sum().item()) and not bool(torch.isfinite(vector).all()):
        raise FederatedError(
            f"The {name} of client {client!r} is not finite: its training diverged. Try a smaller learning rate."
        )
    return vector
