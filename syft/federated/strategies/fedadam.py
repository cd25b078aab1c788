"""FedAdam: Adam at the server (Reddi et al. 2021)."""

from __future__ import annotations

from typing import ClassVar

import torch

from syft.federated.strategies.adaptive import Adaptive


class FedAdam(Adaptive):
    """The mean square of the updates is `v = beta2 * v + (1 - beta2) * update^2`.

    Args:
        server_lr: the learning rate of the server.
        beta1: decay of the mean update, from 0 to below 1.
        beta2: decay of the mean square, from 0 to below 1.
        tau: limits the step for small updates; the smaller, the more adaptive.
        weighted: whether a client's weight is its number of samples; equal weights if False.
    """

    name: ClassVar[str] = "FedAdam"

    def squares(self, last: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        """Return the next mean square."""
        return self.beta2 * last + (1 - self.beta2) * new
