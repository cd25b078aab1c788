"""ServerOptimizer: strategies whose server steps along the mean update of the clients."""

from __future__ import annotations

import math
from typing import Any

import torch

from syft.federated.strategies.strategy import Round, Strategy, Total
from syft.federated.validation import bounded, flag, real


class ServerOptimizer(Strategy):
    """A strategy with a learning rate at the server.

    The mean update of the clients acts as a gradient for the parameters. Buffers, such as the statistics of batch norm,
    are not directions; they are set to the mean of the clients.

    Args:
        server_lr: the learning rate of the server.
        weighted: whether a client's weight is its number of samples; equal weights if False.
    """

    def __init__(self, server_lr: float = 1.0, weighted: bool = True) -> None:
        super().__init__(flag(type(self).__name__, "weighted", weighted))
        self.server_lr = self._real("server_lr", server_lr, 0)

    def _real(self, name: str, value: object, low: float, high: float = math.inf, ends: str = "()") -> float:
        return real(type(self).__name__, name, value, low, high, ends)

    def apply(self, state: torch.Tensor, total: Total, round: Round) -> torch.Tensor:
        """Return the next state: a step for the parameters, the mean for the buffers."""
        count = round.layout.parameters
        following = state + bounded(self.name, total.update)
        following[:count] = state[:count] + self.step(total.update[:count])
        return following

    def step(self, update: torch.Tensor) -> torch.Tensor:
        """Return the step of the parameters for a mean update; raises before anything changes."""
        return bounded(self.name, self.server_lr * update)

    def settings(self) -> dict[str, Any]:
        """Return the learning rate of the server, and whether weights are numbers of samples."""
        return {"server_lr": self.server_lr, **super().settings()}
