"""RunSettings: the settings of a run, validated before anything is sent."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from syft.exceptions import TrainingError
from syft.federated.client.train_config import ROUND_SETTINGS, TrainConfig


@dataclasses.dataclass(frozen=True, slots=True)
class RunSettings:
    """The arguments of `run` that it documents, apart from the model and the clients."""

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
        """Raise if the settings are invalid."""
        self.training().check()
        for name, least in (("rounds", 0), ("min_clients", 1), ("attempts", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise TrainingError(f"{name} must be an integer of at least {least}, got {value!r:.50}.")
        chosen = self.clients_per_round
        is_share = type(chosen) is float and 0 < chosen <= 1
        if not (chosen is None or is_share or (type(chosen) is int and chosen >= 1)):
            raise TrainingError("clients_per_round must be a number of clients, or a share of them such as 0.1.")
        timeout = self.round_timeout
        if timeout is not None and (type(timeout) not in (int, float) or not 0 < timeout < float("inf")):
            raise TrainingError("round_timeout must be a positive number of seconds or None.")
        if self.seed is not None and (type(self.seed) is not int or not 0 <= self.seed < 2**63):
            raise TrainingError("seed must be an integer from 0 to 2^63 - 1, or None.")

    def check_clients(self, clients: int, is_private: bool) -> None:
        """Raise if no round with this number of clients could count."""
        if self.min_clients > self.count(clients):
            raise TrainingError(
                f"min_clients is {self.min_clients}, but a round has only {self.count(clients)} of {clients} clients."
            )
        if is_private and self.min_clients > 1:
            raise TrainingError(
                "With privacy=UserPrivacy(...) the number of clients in a round is random. Omit min_clients."
            )

    def training(self) -> TrainConfig:
        """Return the training settings of the clients."""
        return TrainConfig(id="federated", **{name: getattr(self, name) for name in ROUND_SETTINGS})

    def payload(self) -> dict[str, Any]:
        """Return the training settings as sent to each client."""
        return self.training().round_settings()

    def count(self, clients: int) -> int:
        """Return the number of clients in a round, out of all clients."""
        chosen = self.clients_per_round
        if chosen is None:
            return clients
        if type(chosen) is float:
            return max(1, round(chosen * clients))
        return min(int(chosen), clients)
