"""RunSettings: how a run trains, whom it asks and when a round ends; checked before anything is sent."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from syft.exceptions import TrainingError
from syft.federated.client.train_config import TrainConfig


@dataclasses.dataclass(frozen=True, slots=True)
class RunSettings:
    """What `run` was told, apart from the model and the clients.

    Attributes:
        rounds: how many rounds there are in all.
        optimizer: the optimizer at the clients, by its name in torch.optim, or its class there.
        optimizer_args: its settings.
        batch_size: how many samples are in a batch.
        epochs: how often a client goes through its data in a round.
        max_nr_batches: after how many batches a client ends, however many epochs are left; -1 for no limit.
        shuffle: whether each epoch takes the samples in another order.
        clients_per_round: how many clients are asked in a round, or which share of them; None for all.
        min_clients: how many have to answer for a round to count.
        round_timeout: after how many seconds a round ends with those who have answered; None: when all have.
        seed: makes runs repeatable; None for another one each time.
        attempts: how often a round is tried before the run gives up.
    """

    rounds: int
    optimizer: str | type[torch.optim.Optimizer] = "SGD"
    optimizer_args: dict[str, Any] | None = None
    batch_size: int = 32
    epochs: int = 1
    max_nr_batches: int = -1
    shuffle: bool = True
    clients_per_round: int | float | None = None
    min_clients: int = 1
    round_timeout: float | None = None
    seed: int | None = None
    attempts: int = 3

    def check(self) -> None:
        """Raise if a run can't be made of these."""
        self.training().check()
        for name, least in (("rounds", 0), ("min_clients", 1), ("attempts", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise TrainingError(f"{name} is a whole number of at least {least}, not {value!r:.50}.")
        chosen = self.clients_per_round
        is_share = type(chosen) is float and 0 < chosen <= 1
        if not (chosen is None or is_share or (type(chosen) is int and chosen >= 1)):
            raise TrainingError("clients_per_round is a number of clients, or a share of them such as 0.1.")
        timeout = self.round_timeout
        if timeout is not None and (type(timeout) not in (int, float) or not 0 < timeout < float("inf")):
            raise TrainingError("round_timeout is a number of seconds, or None.")
        if self.seed is not None and (type(self.seed) is not int or not 0 <= self.seed < 2**63):
            raise TrainingError("seed is a whole number from 0 to 2^63 - 1, or None.")

    def check_clients(self, clients: int, is_private: bool) -> None:
        """Raise if no round of so many clients could count."""
        if self.min_clients > self.count(clients):
            raise TrainingError(
                f"min_clients is {self.min_clients}, and a round asks {self.count(clients)} of {clients} clients."
            )
        if is_private and self.min_clients > 1:
            raise TrainingError(
                "With privacy=UserPrivacy(...) chance decides how many clients a round has, so there is no min_clients."
            )

    def training(self) -> TrainConfig:
        """Return how the clients train."""
        return TrainConfig(
            batch_size=self.batch_size,
            epochs=self.epochs,
            optimizer=self.optimizer,
            optimizer_args=self.optimizer_args,
            max_nr_batches=self.max_nr_batches,
            shuffle=self.shuffle,
            id="federated",
        )

    def payload(self) -> dict[str, Any]:
        """Return what each client is told of it."""
        config = self.training()
        return {
            "batch_size": config.batch_size,
            "epochs": config.epochs,
            "optimizer": config.optimizer,
            "optimizer_args": config.optimizer_args,
            "max_nr_batches": config.max_nr_batches,
            "shuffle": config.shuffle,
        }

    def count(self, clients: int) -> int:
        """Return how many of so many clients are asked in a round."""
        chosen = self.clients_per_round
        if chosen is None:
            return clients
        if type(chosen) is float:
            return max(1, round(chosen * clients))
        return min(int(chosen), clients)
