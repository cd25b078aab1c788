"""Adaptive: the base class of adaptive server optimizers (Reddi et al. 2021, algorithm 2)."""

from __future__ import annotations

from typing import Any

import torch

from syft.exceptions import FederatedError
from syft.federated.strategies.server_optimizer import ServerOptimizer
from syft.federated.validation import bounded, same_size, saved_vector


class Adaptive(ServerOptimizer):
    """Divides each coordinate of the step by the root mean square of its updates.

    `m = beta1 * m + (1 - beta1) * update`, then `w += server_lr * m / (sqrt(v) + tau)`, without bias correction, as
    published. A subclass defines how `v`, the mean square of the updates, changes. It starts at tau squared.

    Args:
        server_lr: the learning rate of the server.
        beta1: decay of the mean update, from 0 to below 1.
        beta2: decay of the mean square, from 0 to below 1.
        tau: limits the step for small updates; the smaller, the more adaptive.
        weighted: whether a client's weight is its number of samples; equal weights if False.
    """

    def __init__(
        self,
        server_lr: float = 0.1,
        beta1: float = 0.9,
        beta2: float = 0.99,
        tau: float = 1e-3,
        weighted: bool = True,
    ) -> None:
        super().__init__(server_lr, weighted)
        self.beta1 = self._real("beta1", beta1, 0, 1, "[)")
        self.beta2 = self._real("beta2", beta2, 0, 1, "[)")
        self.tau = self._real("tau", tau, 0)
        self._mean: torch.Tensor | None = None
        self._square: torch.Tensor | None = None

    def squares(self, last: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        """Return the next mean square, from the last one and the square of this round's update."""
        raise NotImplementedError(f"{type(self).__name__}: an adaptive strategy must implement squares")

    def step(self, update: torch.Tensor) -> torch.Tensor:
        """Return the step, and store the mean and the mean square of the updates."""
        mean = same_size(self.name, self._mean, update.numel())
        square = torch.full_like(mean, self.tau**2) if self._square is None else self._square
        mean = bounded(self.name, self.beta1 * mean + (1 - self.beta1) * update)
        square = bounded(self.name, self.squares(square, update**2))
        found = bounded(self.name, self.server_lr * mean / (square.sqrt() + self.tau))
        self._mean, self._square = mean, square
        return found

    def settings(self) -> dict[str, Any]:
        """Return the settings of the server's optimizer."""
        return {**super().settings(), "beta1": self.beta1, "beta2": self.beta2, "tau": self.tau}

    def state(self) -> dict[str, Any]:
        """Return the mean and the mean square of the updates."""
        return {"mean": self._mean, "square": self._square}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state`; an empty one resets the strategy."""
        mean, square = (saved_vector(self.name, part, state.get(part)) for part in ("mean", "square"))
        sizes = {None if part is None else part.numel() for part in (mean, square)}
        if len(sizes) != 1 or (square is not None and bool((square < 0).any())):
            raise FederatedError(f"The checkpoint can't be used: mean and square of {self.name} do not match.")
        self._mean, self._square = mean, square
