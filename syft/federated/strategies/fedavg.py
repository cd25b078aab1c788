"""FedAvg: the next model is the mean of the clients' models (McMahan et al. 2017)."""

from __future__ import annotations

from typing import ClassVar

from syft.federated.strategies.server_optimizer import ServerOptimizer


class FedAvg(ServerOptimizer):
    """Federated averaging.

    Args:
        server_lr: how far to go from the last model towards the mean of the clients' models; all the way if 1.
        weighted: whether a client counts by its number of samples, as published; each counts the same if False.
    """

    name: ClassVar[str] = "FedAvg"
