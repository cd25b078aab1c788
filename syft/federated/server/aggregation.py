"""Aggregation of the results of a round, unmasked: summed in the order of the clients, or one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from syft.exceptions import FederatedError
from syft.federated.server.traffic import Traffic
from syft.federated.strategies.strategy import Answer, Round, Strategy, Total

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class Aggregation:
    """Aggregates the results of the rounds of one run.

    Attributes:
        least: minimum number of clients in a round.
        metrics: joint metrics of the last round by name, if clients do not report them one by one.
        left_out: clients that dropped out before training -> reason.
        refused: clients whose results were not counted at the end of the last round -> reason.
        traffic: the traffic of the aggregation's own calls.
    """

    least = 1

    def __init__(self) -> None:
        self.metrics: dict[str, Any] = {}
        self.left_out: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.traffic = Traffic()

    def left(self, count: int) -> int:
        """Return the minimum number of clients at the end of a round that started with `count`."""
        return 1

    def begin(self, round: Round, clients: Mapping[str, Any], strategy: Strategy) -> dict[str, dict[str, Any]]:
        """Start a round with the chosen clients, by name and in order.

        Returns the settings by the name of a modifier, for each client. A client that is missing is not called to
        train.
        """
        raise NotImplementedError(f"{type(self).__name__}: an aggregation must implement begin")

    def add(self, client: str, result: dict[str, Any]) -> None:
        """Add the result of a client's "train" call; raises FederatedError if it is invalid."""
        raise NotImplementedError(f"{type(self).__name__}: an aggregation must implement add")

    def drop(self, client: str) -> None:
        """Record that a client will not answer in this round."""

    def finish(self, least: int = 1) -> Total:
        """End the round and return the sum of the results.

        With fewer than `least` results nothing is revealed, and FederatedError is raised.
        """
        raise NotImplementedError(f"{type(self).__name__}: an aggregation must implement finish")


class PlainAggregation(Aggregation):
    """Aggregation in which the server sees each result. For a linear strategy only the sum is kept."""

    def __init__(self) -> None:
        super().__init__()
        self._strategy: Strategy
        self._round: Round
        self._reset()

    def _reset(self) -> None:
        """Discard all results."""
        self._sum: torch.Tensor | None = None
        self._extras: dict[str, torch.Tensor] = {}
        self._weight = 0.0
        self._answers: list[Answer] = []
        self._order: list[str] = []
        self._count = 0
        # Results that arrived before that of an earlier client: sums are computed in the order of the clients, so
        # that the order of arrival does not change the sum.
        self._waiting: dict[str, Answer] = {}

    def begin(self, round: Round, clients: Mapping[str, Any], strategy: Strategy) -> dict[str, dict[str, Any]]:
        """Start a round; clients are not called."""
        self._reset()
        self._round, self._strategy, self._order = round, strategy, list(clients)
        return {name: {} for name in clients}

    def add(self, client: str, result: dict[str, Any]) -> None:
        """Add the result of a client."""
        answer = checked(client, result, self._round, self._strategy)
        if not self._strategy.is_linear:
            self._answers.append(answer)
            return
        self._waiting[client] = answer
        self._advance()

    def drop(self, client: str) -> None:
        """Stop waiting for a client."""
        if self._strategy.is_linear and client in self._order:
            self._order.remove(client)
            self._advance()

    def _advance(self) -> None:
        while self._order and self._order[0] in self._waiting:
            self._add_ordered(self._waiting.pop(self._order.pop(0)))

    def _add_ordered(self, answer: Answer) -> None:
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
        """Return the sum of the results."""
        if not self._strategy.is_linear:
            place = {name: number for number, name in enumerate(self._order)}
            return self._strategy.combine(sorted(self._answers, key=lambda a: place[a.client]), self._round)
        for name in self._order:
            if name in self._waiting:
                self._add_ordered(self._waiting.pop(name))
        if self._sum is None or self._weight <= 0:
            raise FederatedError("No client with samples answered, so there is no mean.")
        extras = {name: vector / self._count for name, vector in self._extras.items()}
        return Total(self._sum / self._weight, self._weight, self._count, extras)


def checked(client: str, result: Any, round: Round, strategy: Strategy) -> Answer:
    """Return the validated result of a client; it is untrusted."""
    dtype = round.layout.dtype
    update = _vector(client, "update", result, round.layout.size, dtype)
    samples = result.get("samples")
    if type(samples) is not int or not 0 <= samples < 2**53:
        raise FederatedError(f"Client {client!r} did not report its number of samples.")
    extras = {name: _vector(client, name, result, round.layout.parameters, dtype) for name in strategy.extras}
    return Answer(client, update, samples, extras)


def is_plain(vector: torch.Tensor) -> bool:
    """Return whether a vector is a contiguous, dense tensor of a supported kind."""
    return vector.dtype in _FLOATS and vector.layout is torch.strided and vector.device.type == "cpu"


def _vector(client: str, name: str, result: object, size: int, dtype: torch.dtype) -> torch.Tensor:
    vector = result.get(name) if isinstance(result, dict) else None
    if type(vector) is not torch.Tensor or vector.shape != (size,) or not is_plain(vector):
        raise FederatedError(f"Client {client!r} did not return {name}: one vector of {size} numbers.")
    vector = vector.detach().to(dtype)  # a finite value may overflow in the model's dtype
    # A value that is not finite shows in the sum, which is fast to check; but a finite sum may overflow.
    if not math.isfinite(vector.sum().item()) and not bool(torch.isfinite(vector).all()):
        raise FederatedError(
            f"The {name} of client {client!r} is not finite: its training diverged. Try a smaller learning rate."
        )
    return vector
