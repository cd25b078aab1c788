"""FedProx: keeps clients near the model that they started from (Li et al. 2020)."""

from __future__ import annotations

from typing import Any, ClassVar

from syft.federated.strategies.server_optimizer import ServerOptimizer
from syft.federated.strategies.strategy import Round


class FedProx(ServerOptimizer):
    """Federated averaging where each client's loss has a term `mu / 2 * |w - w_start|^2`.

    Clients with different data drift apart less, and a client that trains longer than others does less harm.

    Args:
        mu: the weight of the term; 0 is FedAvg. Values from 0.001 to 1 are usual.
        server_lr: the step from the last model towards the mean of the clients' models; 1 is the mean itself.
        weighted: whether a client's weight is its number of samples; equal weights if False.
    """

    name: ClassVar[str] = "FedProx"

    def __init__(self, mu: float = 0.01, server_lr: float = 1.0, weighted: bool = True) -> None:
        super().__init__(server_lr, weighted)
        self.mu = self._real("mu", mu, 0, ends="[)")

    def modifiers(self, round: Round, client: str) -> dict[str, dict[str, Any]]:
        """Request the proximal term."""
        return {"proximal": {"mu": self.mu}} if self.mu else {}

    def settings(self) -> dict[str, Any]:
        """Return mu and the settings of FedAvg."""
        return {"mu": self.mu, **super().settings()}
