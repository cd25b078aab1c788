"""Scaffold: corrects the drift of clients with different data (Karimireddy et al. 2020, option II)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from syft.exceptions import FederatedError, StateLostError
from syft.federated.strategies.averaging import ServerOptimizer
from syft.federated.strategies.strategy import Round, Total
from syft.federated.validation import bounded, same_size, saved_vector


class Scaffold(ServerOptimizer):
    """Stochastic controlled averaging: clients step along `gradient - control of the client + mean control`.

    Each client keeps its control, an estimate of its own gradient, and returns its change; the server keeps the sum.
    Clients train by SGD without momentum. All clients have the same weight, as published: the result minimizes the
    unweighted mean of the clients' losses.

    The server stores in which round the control of each client was counted last, and sends that number. A client keeps
    that control and the one of the current round, so a lost result, or a round repeated after a crash, is never counted
    twice. A client that lost its control, due to a restart, reports it. Its contribution to the sum is then unknown and
    would bias all later rounds. So it trains without controls in this round, and after the round all controls are reset
    to zero, at the server and at the clients.

    Args:
        server_lr: the step from the last model towards the mean of the clients' models; 1 is the mean itself.
    """

    name: ClassVar[str] = "Scaffold"
    extras: ClassVar[tuple[str, ...]] = ("control",)
    setting_names: ClassVar[tuple[str, ...]] = ("server_lr",)

    def __init__(self, server_lr: float = 1.0) -> None:
        super().__init__(server_lr, weighted=False)
        self._sum: torch.Tensor | None = None  # of the controls of all clients
        self._versions: dict[str, int] = {}  # client -> the round in which its control was counted last
        self._lost: set[str] = set()  # clients that lost their control in the current round
        self._sent: tuple[Any, torch.Tensor] | None = None  # the mean control of a round, computed once for all clients
        self._lock = threading.Lock()

    def modifiers(self, round: Round, client: str) -> dict[str, dict[str, Any]]:
        """Send the mean control, and the version of the client's own control to use."""
        with self._lock:
            is_lost, version = client in self._lost, self._versions.get(client, 0)
            key = (round.number, round.clients)
            if self._sent is None or self._sent[0] != key:
                whole = same_size(self.name, self._sum, round.layout.parameters)
                self._sent = (key, (whole / round.clients).to(round.layout.dtype))
            control = self._sent[1]
        return {"control": {"control": control, "version": 0 if is_lost else version, "plain": is_lost}}

    def failed(self, client: str, error: Exception, round: Round) -> bool:
        """Call a client that lost its control again, to train without."""
        if not isinstance(error, StateLostError):
            return False
        with self._lock:
            is_new = client not in self._lost
            self._lost.add(client)
        return is_new

    def apply(self, state: torch.Tensor, total: Total, round: Round) -> torch.Tensor:
        """Return the next state, and add the changes of the controls."""
        whole = same_size(self.name, self._sum, round.layout.parameters)
        changed = None if self._lost else bounded(self.name, whole + total.count * total.extras["control"])
        following = super().apply(state, total, round)
        self._sum, self._sent = changed, None
        return following

    def counted(self, clients: Sequence[str], round: Round) -> None:
        """Record the clients whose control was counted in this round."""
        with self._lock:
            if self._lost:
                self._versions, self._lost = {}, set()
            else:
                self._versions.update(dict.fromkeys(clients, round.number))

    def state(self) -> dict[str, Any]:
        """Return the sum of the controls, and the last counted round of each client."""
        return {"sum": self._sum, "versions": dict(self._versions)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state`; an empty one resets the strategy."""
        versions = state.get("versions", {})
        is_plain = isinstance(versions, dict) and all(
            type(name) is str and type(version) is int and version > 0 for name, version in versions.items()
        )
        if not is_plain:
            raise FederatedError("The checkpoint can't be used: versions of Scaffold must be numbers by client.")
        self._sum = saved_vector(self.name, "sum", state.get("sum"))
        self._versions, self._lost, self._sent = dict(versions), set(), None
