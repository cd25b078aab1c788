"""Strategies whose server steps along the mean update of the clients: FedAvg, FedProx, FedAvgM, FedAdam, FedYogi."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch

from syft.exceptions import FederatedError
from syft.federated.strategies.strategy import Round, Strategy, Total
from syft.federated.validation import bounded, flag, real, same_size, saved_vector


class ServerOptimizer(Strategy):
    """A strategy with a learning rate at the server.

    The mean update of the clients acts as a gradient for the parameters. Buffers, such as the statistics of batch norm,
    are not directions; they are set to the mean of the clients.

    Args:
        server_lr: the learning rate of the server.
        weighted: whether a client's weight is its number of samples; equal weights if False.
    """

    setting_names: ClassVar[tuple[str, ...]] = ("server_lr", "weighted")

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


class FedAvg(ServerOptimizer):
    """Federated averaging (McMahan et al. 2017): the next model is the mean of the clients' models.

    Args:
        server_lr: the step from the last model towards the mean of the clients' models; 1 is the mean itself.
        weighted: whether a client's weight is its number of samples, as published; equal weights if False.
    """

    name: ClassVar[str] = "FedAvg"


class FedProx(ServerOptimizer):
    """Federated averaging where each client's loss has a term `mu / 2 * |w - w_start|^2` (Li et al. 2020).

    Clients with different data drift apart less, and a client that trains longer than others does less harm.

    Args:
        mu: the weight of the term; 0 is FedAvg. Values from 0.001 to 1 are usual.
        server_lr: the step from the last model towards the mean of the clients' models; 1 is the mean itself.
        weighted: whether a client's weight is its number of samples; equal weights if False.
    """

    name: ClassVar[str] = "FedProx"
    setting_names: ClassVar[tuple[str, ...]] = ("mu", "server_lr", "weighted")

    def __init__(self, mu: float = 0.01, server_lr: float = 1.0, weighted: bool = True) -> None:
        super().__init__(server_lr, weighted)
        self.mu = self._real("mu", mu, 0, ends="[)")

    def modifiers(self, round: Round, client: str) -> dict[str, dict[str, Any]]:
        """Request the proximal term."""
        return {"proximal": {"mu": self.mu}} if self.mu else {}


class FedAvgM(ServerOptimizer):
    """Server momentum: `v = momentum * v + update`, then `w += server_lr * v` (Hsu et al. 2019).

    Args:
        server_lr: the learning rate of the server.
        momentum: the share of the last step in the next one, from 0 to below 1; 0 is FedAvg.
        weighted: whether a client's weight is its number of samples; equal weights if False.
    """

    name: ClassVar[str] = "FedAvgM"
    setting_names: ClassVar[tuple[str, ...]] = ("server_lr", "weighted", "momentum")

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

    def state(self) -> dict[str, Any]:
        """Return the velocity."""
        return {"velocity": self._velocity}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state`; an empty one resets the strategy."""
        self._velocity = saved_vector(self.name, "velocity", state.get("velocity"))


class Adaptive(ServerOptimizer):
    """Divides each coordinate of the step by the root mean square of its updates (Reddi et al. 2021, algorithm 2).

    `m = beta1 * m + (1 - beta1) * update`, then `w += server_lr * m / (sqrt(v) + tau)`, without bias correction, as
    published. A subclass defines how `v`, the mean square of the updates, changes. It starts at tau squared.
    """

    setting_names: ClassVar[tuple[str, ...]] = ("server_lr", "weighted", "beta1", "beta2", "tau")

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
