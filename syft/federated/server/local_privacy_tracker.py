"""LocalPrivacyTracker: what the clients of a run spend of their samples' privacy, also in rounds that never counted.

A client has spent something as soon as it trains, whether its answer comes in time, too late, or to a server that is
gone. So whom was asked is written down before, and each answer tells all that the client has spent in the run. Who was
asked and has told nothing since is asked for that at the end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Protocol

from syft.exceptions import FederatedError
from syft.federated.server.dispatch import Dispatcher, Job

LOGGER = logging.getLogger(__name__)
# Seconds that clients have to say what they have spent, at the end of a run.
_PATIENCE = 30.0


class LocalPrivacy(Protocol):
    """What clients do for differential privacy of their own samples, and the account of it; `SamplePrivacy` is one."""

    neighbours: Any
    epsilon: Any

    def terms(self, rounds: int) -> dict[str, Any]: ...  # noqa: D102

    def check(self, client: str, result: object) -> None: ...  # noqa: D102

    def add(self, client: str, result: object) -> None: ...  # noqa: D102

    def add_all(self, client: str, spent: object) -> None: ...  # noqa: D102

    def state(self) -> dict[str, Any]: ...  # noqa: D102

    def load_state(self, state: dict[str, Any]) -> None: ...  # noqa: D102


class LocalPrivacyTracker:
    """What clients have spent, where they train with differential privacy; otherwise nothing is done here.

    Args:
        privacy: what they do, and where it is noted what they say; None: nothing.
    """

    def __init__(self, privacy: LocalPrivacy | None) -> None:
        self.privacy = privacy
        # Who was asked to train, and has not said what it has spent since.
        self._silent: set[str] = set()

    def ask(self, names: Iterable[str]) -> None:
        """Take note of clients that are about to be asked to train."""
        if self.privacy is not None:
            self._silent.update(names)

    def take(self, name: str, outcome: Any) -> None:
        """Take note of what a client says; raises FederatedError if it does not, or trained with too little noise."""
        if self.privacy is None:
            return
        self.privacy.check(name, outcome)
        self.privacy.add(name, {"privacy": outcome.get("privacy")})  # spent, whether it counts or not
        self._silent.discard(name)

    def settle(self, clients: Iterable[Any], run: str, crew: Dispatcher) -> None:
        """Ask those who were silent what they have spent; who does not say it is named in the log."""
        if self.privacy is None or not self._silent:
            return
        jobs = [Job(client, run, "spent", {}) for client in clients if client.name in self._silent]
        for name, outcome in crew.run(jobs, _PATIENCE):
            if isinstance(outcome, dict):
                try:
                    self.privacy.add_all(name, outcome.get("spent"))
                except FederatedError:
                    continue
                self._silent.discard(name)
        if self._silent:
            names = ", ".join(sorted(self._silent)[:5])
            LOGGER.warning(
                "%d clients were asked to train, did not answer in time, and can't be asked what they have spent: %s. "
                "The epsilon of the run does not hold for what they sent, if they sent something.",
                len(self._silent), names,
            )  # fmt: skip

    def state(self) -> dict[str, Any] | None:
        """Return what has to be remembered when a run is resumed."""
        return None if self.privacy is None else {"spent": self.privacy.state(), "silent": sorted(self._silent)}

    def load_state(self, state: dict[str, Any] | None) -> None:
        """Go on from what `state` gave."""
        if state is not None and self.privacy is not None:
            self.privacy.load_state(state["spent"])
            self._silent = set(state["silent"])
