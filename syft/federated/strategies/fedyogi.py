"""FedYogi: Yogi at the server (Reddi et al. 2021)."""

from __future__ import annotations

from typing import ClassVar

import torch

from syft.federated.strategies.adaptive import Adaptive


class FedYogi(Adaptive):
    """The mean square of the updates is `v = v - (1 - beta2) * update^2 * sign(v - update^2)`: it shrinks slowly.

    Args:
        server_lr: the learning rate of the server.
        beta1: decay of the mean update, from 0 to below 1.
        beta2: rate of change of the mean square, from 0 (fast) to below 1 (slow).
        tau: limits the step for small updates; the smaller, the more adaptive.
        weighted: whether a client's weight is its number of samples; equal weights if False.
    """

    name: ClassVar[str] = "FedYogi"

    def squares(self, last: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        """Return the next mean square."""
        return last - (1 - self.beta2) * new * torch.sign(last - new)
