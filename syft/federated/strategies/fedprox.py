"""FedProx: clients are held near the model that they started from (Li et al. 2020)."""

from __future__ import annotations

from typing import Any, ClassVar

from syft.federated.strategies.server_optimizer import ServerOptimizer
from syft.federated.strategies.strategy import Round


class FedProx(ServerOptimizer):
    """Federated averaging where each client's loss has a term `mu / 2 * |w - w_start|^2`.

    Clients with unlike data drift apart less, and one that trains longer than others does less harm.

    Args:
        mu: how strongly; 0 gives FedAvg. Values from 0.001 to 1 are usual.
        server_lr: how far to go from the last model towards the mean of the clients' models; all the way if 1.
        weighted: whether a client counts by its number of samples; each counts the same if False.
    """

    name: ClassVar[str] = "FedProx"

    def __init__(self, mu: float = 0.01, server_lr: float = 1.0, weighted: bool = True) -> None:
        super().__init__(server_lr, weighted)
        self.mu = self._real("mu", mu, 0, ends="[)")

    def terms(self, round: Round, client: str) -> dict[str, dict[str, Any]]:
        """Ask for the term."""
        return {"proximal": {"mu": self.mu}} if self.mu else {}

    def settings(self) -> dict[str, Any]:
        """Return mu and what FedAvg has."""
        return {"mu": self.mu, **super().settings()}
