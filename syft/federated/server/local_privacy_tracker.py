"""LocalPrivacyTracker: the privacy loss of the clients' samples, including rounds that did not count.

A client spends privacy as soon as it trains, even if its result is late or the server is gone. So the calls are
recorded in advance, and each result has the client's total loss in the run. Clients that were called and did not
report are asked for it at the end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from syft.exceptions import FederatedError
from syft.federated.server.dispatch import Dispatcher, Job

if TYPE_CHECKING:
    from syft.dp.training.sample_privacy import SamplePrivacy

LOGGER = logging.getLogger(__name__)
# Seconds that clients have to report their privacy loss at the end of a run.
_TIMEOUT = 30.0


class LocalPrivacyTracker:
    """Tracks the privacy loss of clients that train with differential privacy; does nothing otherwise."""

    def __init__(self, privacy: SamplePrivacy | None) -> None:
        self.privacy = privacy
        # Clients that were called to train and have not reported their loss since.
        self._silent: set[str] = set()

    def expect_reports(self, names: Iterable[str]) -> None:
        """Record clients that are about to be called to train."""
        if self.privacy is not None:
            self._silent.update(names)

    def record(self, name: str, outcome: Any) -> None:
        """Record the reported loss of a client; raises FederatedError if it is missing or too little noise was used."""
        if self.privacy is None:
            return
        self.privacy.check(name, outcome)
        self.privacy.add(name, {"privacy": outcome.get("privacy")})  # the loss counts even if the result does not
        self._silent.discard(name)

    def collect_reports(self, clients: Iterable[Any], run: str, dispatcher: Dispatcher) -> None:
        """Ask silent clients for their loss; log the names of those that do not answer."""
        if self.privacy is None or not self._silent:
            return
        jobs = [Job(client, run, "spent", {}) for client in clients if client.name in self._silent]
        for name, outcome in dispatcher.run(jobs, _TIMEOUT):
            if isinstance(outcome, dict):
                try:
                    self.privacy.add_all(name, outcome.get("spent"))
                except FederatedError:
                    continue
                self._silent.discard(name)
        if self._silent:
            names = ", ".join(sorted(self._silent)[:5])
            LOGGER.warning(
                "%d clients were called to train, did not answer in time, and can't be asked for their loss: %s. "
                "The epsilon of the run does not cover results that they sent.",
                len(self._silent), names,
            )  # fmt: skip

    def state(self) -> dict[str, Any] | None:
        """Return the state for a checkpoint."""
        return None if self.privacy is None else {"spent": self.privacy.state(), "silent": sorted(self._silent)}

    def load_state(self, state: dict[str, Any] | None) -> None:
        """Restore the result of `state`."""
        if state is not None and self.privacy is not None:
            self.privacy.load_state(state["spent"])
            self._silent = set(state["silent"])
