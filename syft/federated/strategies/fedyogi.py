"""FedYogi: Yogi at the server (Reddi et al. 2021)."""

from __future__ import annotations

from typing import ClassVar

import torch

from syft.federated.strategies.adaptive import Adaptive


class FedYogi(Adaptive):
    """The mean square of the updates is `v = v - (1 - beta2) * update^2 * sign(v - update^2)`: it shrinks slowly.

    Args:
        server_lr: the learning rate of the server.
        beta1: how much of the mean update stays from round to round, from 0 to below 1.
        beta2: how slowly the mean square changes, from 0 to below 1.
        tau: keeps small numbers from becoming large steps; the smaller, the more adaptive.
        weighted: whether a client counts by its number of samples; each counts the same if False.
    """

    name: ClassVar[str] = "FedYogi"

    def squares(self, last: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        """Return the next mean square."""
        return last - (1 - self.beta2) * new * torch.sign(last - new)
