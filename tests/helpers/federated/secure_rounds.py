"""Rounds of secure aggregation among sessions of this process, with a server whose messages can be changed."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from syft.exceptions import TrainingError
from syft.federated.client.secure_aggregation.packing import Packing
from syft.federated.client.session import ClientSession
from syft.federated.secure_aggregation import SecureAggregation
from syft.federated.server.model import SharedModel
from syft.federated.strategies import FedAvg
from syft.federated.strategies.strategy import Round

RUN, ROUND = "run-1", 1
STEPS = ("secure.keys", "secure.shares", "train", "secure.agree", "secure.unmask")


class Lost(ConnectionError):
    """A client is gone."""


class Inputs:
    """A client whose update is the row it has: its samples are all the same."""

    def __init__(self, row: torch.Tensor, samples: int) -> None:
        self.row, self.samples = row, samples
        self.plain: dict[str, Any] | None = None

    def dataset(self) -> TensorDataset:
        return TensorDataset(torch.ones(self.samples, 1), self.row.expand(self.samples, -1).clone())


@cache
def inputs(count: int, size: int = 6, seed: int = 0) -> list[Inputs]:
    chance = torch.Generator().manual_seed(seed)
    return [Inputs(torch.randn(size, generator=chance), 1 + (5 * i + seed) % 7) for i in range(count)]


@cache
def shared(size: int) -> SharedModel:
    """A model whose gradient is the mean of the targets, backwards."""
    model = nn.Linear(1, size, bias=False)
    nn.init.zeros_(model.weight)
    example = (torch.ones(2, 1), torch.zeros(2, size))
    return SharedModel(model, lambda output, target: -((output + target) * target).sum(1).mean(), example)


class Watched:
    """A client as the collector sees it: records the messages, can disappear at a step, and can change a message."""

    is_here = True

    def __init__(self, name: str, given: Inputs, log: list[Any], gone_at: str | None = None) -> None:
        self.name, self.log, self.gone_at = name, log, gone_at
        self.session = ClientSession(name, RUN, given.dataset())
        self.change: Any = None  # a function of the call and its answer
        self._is_gone = False

    def call(self, run: str, name: str, payload: dict[str, Any], timeout: float | None = None) -> dict[str, Any]:
        self._is_gone = self._is_gone or name == self.gone_at
        if self._is_gone:
            raise Lost("the line is cut")
        answer = self.session.call(name, payload)
        if self.change is not None:
            answer = self.change(name, answer)
        self.log.append((self.name, name, answer))
        return answer


class World:
    """Clients, a collector, and rounds that go through all steps."""

    def __init__(
        self,
        given: list[Inputs],
        gone: dict[int, str] | None = None,
        strategy: Any = None,
        **settings: Any,
    ) -> None:
        self.given, self.log = given, []
        self.clients = {f"c{i}": Watched(f"c{i}", one, self.log, (gone or {}).get(i)) for i, one in enumerate(given)}
        self.strategy = FedAvg() if strategy is None else strategy
        self.model = shared(len(given[0].row))
        self.collector = SecureAggregation(**settings).collector(RUN)

    def payload(self, number: int, modifiers: dict[str, Any]) -> dict[str, Any]:
        return {
            "plan": self.model.plan, "loss": self.model.loss, "round": number, "seed": 3, "modifiers": modifiers,
            "batch_size": 1000, "epochs": 1, "optimizer": "SGD", "optimizer_args": {"lr": 1.0}, "shuffle": False,
        }  # fmt: skip

    def begin(self, number: int = 1) -> dict[str, Any]:
        round = Round(number, len(self.clients), self.model.layout)
        return self.collector.begin(round, self.clients, self.strategy)

    def train(self, modifiers: dict[str, Any], number: int = 1) -> dict[str, Any]:
        """Have the clients of a round train, and add what they answer."""
        answers = {}
        for name, term in modifiers.items():
            try:
                answers[name] = self.clients[name].call(RUN, "train", self.payload(number, term))
            except Lost:
                self.collector.drop(name)
                continue
            self.collector.add(name, answers[name])
        return answers

    def round(self, number: int = 1) -> Any:
        self.train(self.begin(number), number)
        return self.collector.finish()

    def plain(self, index: int) -> dict[str, Any]:
        """Return the unmasked result of a client."""
        given = self.given[index]
        if given.plain is None:
            given.plain = ClientSession("plain", RUN, given.dataset()).call("train", self.payload(1, {}))
        return given.plain

    def packed(self, index: int, packing: Packing) -> torch.Tensor:
        """Return the packed result of a client before it is masked."""
        answer = self.plain(index)
        return packing.pack(answer["update"], answer["samples"], answer["metrics"]["loss"], [])

    def mean(self, who: list[int]) -> torch.Tensor:
        """The mean of what clients would give in the clear."""
        answers = [self.plain(index) for index in who]
        weights = [answer["samples"] if self.strategy.weighted else 1 for answer in answers]
        total = sum(answer["update"].double() * weight for answer, weight in zip(answers, weights, strict=True))
        return total / sum(weights)


class Server:
    """Carries the messages of a round of five clients, step by step."""

    def __init__(self, count=5, threshold=4, number=ROUND):
        self.world = World(inputs(count))
        self.number, self.threshold, self.count = number, threshold, count
        self.sessions = [client.session for client in self.world.clients.values()]

    def keys(self):
        self.entries = [session.call("secure.keys", {"round": self.number})["keys"] for session in self.sessions]
        return self

    def ask_shares(self, index, entries=None, threshold=None, number=None):
        payload = {
            "round": self.number if number is None else number,
            "entries": self.entries if entries is None else entries,
            "threshold": self.threshold if threshold is None else threshold,
        }
        return self.sessions[index].call("secure.shares", payload)["sealed"]

    def shares(self):
        self.sealed = [self.ask_shares(index) for index in range(self.count)]
        return self

    def delivery(self, index):
        return [b"" if other == index else self.sealed[other][index] for other in range(self.count)]

    def term(self, index, sealed=None, **changed):
        settings = {
            "round": self.number, "sealed": self.delivery(index) if sealed is None else sealed, "weighted": True,
            "extras": [], "max_update": 1024.0, "max_samples": 2**20, **changed,
        }  # fmt: skip
        return {"masking": settings}

    def ask_train(self, index, sealed=None, number=None, **changed):
        number = self.number if number is None else number
        payload = self.world.payload(number, self.term(index, sealed, **changed))
        return self.sessions[index].call("train", payload)

    def train(self):
        self.masked = [self.ask_train(index)["update"] for index in range(self.count)]
        return self

    def ask_agree(self, index, survivors):
        return self.sessions[index].call("secure.agree", {"round": self.number, "survivors": survivors})["vows"]

    def agree(self, survivors=None):
        self.survivors = list(range(self.count)) if survivors is None else survivors
        self.confirmations = {index: self.ask_agree(index, self.survivors) for index in self.survivors}
        return self

    def vows_for(self, index):
        return [
            self.confirmations[other][index] if other in self.confirmations and other != index else b""
            for other in range(self.count)
        ]

    def ask_unmask(self, index, confirmations=None):
        payload = {"round": self.number, "vows": self.vows_for(index) if confirmations is None else confirmations}
        return self.sessions[index].call("secure.unmask", payload)["shares"]

    def is_over(self, index):
        """The client has nothing left that any further question could get."""
        assert "secure" not in self.sessions[index].memory
        for ask in (
            lambda: self.ask_shares(index, [bytes(64)] * 5),
            lambda: self.ask_train(index, [b""] * 5),
            lambda: self.ask_agree(index, list(range(self.count))),
            lambda: self.ask_unmask(index, [b""] * self.count),
        ):
            with pytest.raises(TrainingError, match="not at this step"):
                ask()
