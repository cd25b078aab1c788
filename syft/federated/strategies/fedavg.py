"""FedAvg: the next model is the mean of the clients' models (McMahan et al. 2017)."""

from __future__ import annotations

from typing import ClassVar

from syft.federated.strategies.server_optimizer import ServerOptimizer


class FedAvg(ServerOptimizer):
    """Federated averaging.

    Args:
        server_lr: the step from the last model towards the mean of the clients' models; 1 is the mean itself.
        weighted: whether a client's weight is its number of samples, as published; equal weights if False.
    """

    name: ClassVar[str] = "FedAvg"
