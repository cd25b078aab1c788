"""Strategy: the clients' training settings, and how the server combines their results."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from syft.display.facts import FactList, Shown
from syft.federated.client.state_vector import StateLayout


@dataclasses.dataclass(frozen=True, slots=True)
class Round:
    """The properties of a round when it starts.

    Attributes:
        number: 1 for the first round.
        clients: total number of clients.
        layout: the layout of the flat vectors of this run.
    """

    number: int
    clients: int
    layout: StateLayout


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """The result of one client in a round.

    Attributes:
        client: the name of the client.
        update: its new state minus the initial one, flat; parameters first, then buffers.
        samples: number of its samples.
        extras: other flat vectors that a modifier of the strategy adds, by name.
    """

    client: str
    update: torch.Tensor
    samples: int
    extras: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Total:
    """The combined results of a round; a linear strategy sees nothing else.

    Attributes:
        update: the weighted mean of the updates, flat, in float64.
        weight: the sum of the weights: numbers of samples, or 1 for each client.
        count: number of results.
        extras: the unweighted means of other flat vectors, in float64.
    """

    update: torch.Tensor
    weight: float
    count: int
    extras: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)


class Strategy(Shown):
    """Defines how clients train, and how their results become the next model.

    A strategy belongs to one run. Override `modifiers` to change the clients' training, and `apply` if the mean of the
    updates is enough, or set `is_linear` to False and override `combine` to see each update. `state` returns the state
    from round to round and `load_state` restores it, so that a run can be resumed.

    Args:
        weighted: whether a client's weight is its number of samples; equal weights if False.
    """

    name: ClassVar[str] = ""  # in checkpoints and texts; the class name if empty
    # Whether the weighted mean of the updates is enough: then results are added up as they arrive, and secure
    # aggregation can hide each of them.
    is_linear: ClassVar[bool] = True
    # Names of the extra vectors in the clients' results; they have the size of the parameters.
    extras: ClassVar[tuple[str, ...]] = ()
    # Names of the attributes that `settings` returns.
    setting_names: ClassVar[tuple[str, ...]] = ("weighted",)

    def __init__(self, weighted: bool = True) -> None:
        self.weighted = weighted

    def modifiers(self, round: Round, client: str) -> dict[str, dict[str, Any]]:
        """Return the modifiers of a client's training: settings by the name of a modifier."""
        return {}

    def apply(self, state: torch.Tensor, total: Total, round: Round) -> torch.Tensor:
        """Return the next state of the model, from the current one (both flat, in float64) and the combined results."""
        return state + total.update

    def combine(self, answers: Sequence[Answer], round: Round) -> Total:
        """Return the combined results. Only called if `is_linear` is False."""
        raise NotImplementedError(f"{type(self).__name__}: a strategy that is not linear must implement combine")

    def failed(self, client: str, error: Exception, round: Round) -> bool:
        """Record that a client failed, and return whether to call it once more in this round, with new modifiers.

        Clients train concurrently, so several threads may call this.
        """
        return False

    def counted(self, clients: Sequence[str], round: Round) -> None:
        """Record the clients whose results were counted, once a round is complete."""

    def settings(self) -> dict[str, Any]:
        """Return plain numbers by name that distinguish this strategy from others of its class."""
        return {name: getattr(self, name) for name in self.setting_names}

    def state(self) -> dict[str, Any]:
        """Return the state to keep from round to round: plain values and tensors by name."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state`."""

    def _facts(self) -> FactList:
        return (("name", self.name or type(self).__name__), *self.settings().items())

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"{self.name or type(self).__name__}({settings})"
