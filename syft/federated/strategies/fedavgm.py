"""FedAvgM: federated averaging with momentum at the server (Hsu et al. 2019)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from syft.federated.strategies.server_optimizer import ServerOptimizer
from syft.federated.validation import bounded, same_size, saved_vector


class FedAvgM(ServerOptimizer):
    """Server momentum: `v = momentum * v + update`, then `w += server_lr * v`.

    Args:
        server_lr: the learning rate of the server.
        momentum: the share of the last step in the next one, from 0 to below 1; 0 is FedAvg.
        weighted: whether a client's weight is its number of samples; equal weights if False.
    """

    name: ClassVar[str] = "FedAvgM"

    def __init__(self, server_lr: float = 1.0, momentum: float = 0.9, weighted: bool = True) -> None:
        super().__init__(server_lr, weighted)
        self.momentum = self._real("momentum", momentum, 0, 1, "[)")
        self._velocity: torch.Tensor | None = None

    def step(self, update: torch.Tensor) -> torch.Tensor:
        """Return the step, and store the velocity."""
        velocity = same_size(self.name, self._velocity, update.numel())
        velocity = bounded(self.name, self.momentum * velocity + update)
        found = bounded(self.name, self.server_lr * velocity)
        self._velocity = velocity
        return found

    def settings(self) -> dict[str, Any]:
        """Return the momentum and the settings of FedAvg."""
        return {**super().settings(), "momentum": self.momentum}

    def state(self) -> dict[str, Any]:
        """Return the velocity."""
        return {"velocity": self._velocity}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state`; an empty one resets the strategy."""
        self._velocity = saved_vector(self.name, "velocity", state.get("velocity"))
