"""Strategy: what a round asks of the clients, and what the server makes of their answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from syft.federated.client.state_vector import StateLayout


@dataclasses.dataclass(frozen=True, slots=True)
class Round:
    """What is known when a round begins.

    Attributes:
        number: 1 for the first round.
        clients: how many clients there are in all.
        layout: what the flat vectors of this run are made of.
    """

    number: int
    clients: int
    layout: StateLayout


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What one client gave in a round.

    Attributes:
        client: the name of the client.
        update: its new state minus the one it started from, flat; parameters first, then buffers.
        samples: how many samples it has.
        extras: other flat vectors that a term of the strategy adds, by name.
    """

    client: str
    update: torch.Tensor
    samples: int
    extras: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Total:
    """What all clients of a round gave together; all that a linear strategy sees.

    Attributes:
        update: the weighted mean of the updates, flat, in float64.
        weight: the sum of the weights: of samples, or of clients where each counts the same.
        count: how many clients answered.
        extras: the plain (unweighted) means of other flat vectors, in float64.
    """

    update: torch.Tensor
    weight: float
    count: int
    extras: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)


class Strategy:
    """How clients train, and how their answers become the next model.

    A strategy is made once for a run. Override `terms` to change what clients do, `apply` if the mean of the updates is
    all that is needed, or set `is_linear` to False and override `combine` to see each update. What a strategy remembers
    from round to round it gives in `state` and takes back in `load_state`, so that a run can be resumed.

    Args:
        weighted: whether a client counts by its number of samples; each counts the same if False.
    """

    name: ClassVar[str] = ""  # in checkpoints and texts; the class's own if empty
    # Whether the weighted mean of the updates is enough: then answers are added up as they come, and secure
    # aggregation can hide each of them.
    is_linear: ClassVar[bool] = True
    # Names of the extra vectors that clients add to their answers; they are of the size of the parameters.
    extras: ClassVar[tuple[str, ...]] = ()

    def __init__(self, weighted: bool = True) -> None:
        self.weighted = weighted

    def terms(self, round: Round, client: str) -> dict[str, dict[str, Any]]:
        """Return what is added to the training of a client: settings by the name of a term."""
        return {}

    def apply(self, state: torch.Tensor, total: Total, round: Round) -> torch.Tensor:
        """Return the next state of the model, from the last one (both flat, in float64) and what clients gave."""
        return state + total.update

    def combine(self, answers: Sequence[Answer], round: Round) -> Total:
        """Return what the clients gave together, from each answer. Only called if `is_linear` is False."""
        raise NotImplementedError(f"{type(self).__name__}: a strategy that is not linear must combine answers")

    def failed(self, client: str, error: Exception, round: Round) -> bool:
        """Take note that a client failed, and return whether to ask it once more in this round, with new terms.

        Clients train side by side, so this may be called by several threads at a time.
        """
        return False

    def counted(self, clients: Sequence[str], round: Round) -> None:
        """Take note of whose answers were counted in a round, once it is complete."""

    def settings(self) -> dict[str, Any]:
        """Return plain numbers by name that tell this strategy from another one of its kind."""
        return {"weighted": self.weighted}

    def state(self) -> dict[str, Any]:
        """Return what has to be remembered from round to round: plain values and tensors by name."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"{self.name or type(self).__name__}({settings})"
