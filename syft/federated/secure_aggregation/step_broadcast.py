"""Asking all clients of a round for one step at once; whoever fails, refuses or is late drops out, with a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from syft.exceptions import SyftError
from syft.federated.history.round_outcome import MAX_REASON, shortened
from syft.federated.server.dispatch import MixedDispatcher
from syft.federated.server.traffic import Traffic


class StepBroadcast:
    """The clients of one round, and why some of them dropped out.

    Args:
        clients: the clients by name, in their order; each has `job(call, payload)`.
        timeout: how many seconds a step may take, if clients are elsewhere.
        traffic: counts what the steps carry.
    """

    def __init__(self, clients: Mapping[str, Any], timeout: float, traffic: Traffic) -> None:
        self.clients = clients
        self.left_out: dict[str, str] = {}
        self._timeout = timeout
        self._traffic = traffic
        self._crew = MixedDispatcher()

    def ask(self, call: str, payloads: Mapping[str, dict[str, Any]], check: Callable[[Any], Any]) -> dict[str, Any]:
        """Ask clients for a step, and return what `check` makes of the answers, in the order of the clients.

        Args:
            call: the name of the call.
            payloads: what goes along, by the names of those who are asked.
            check: returns what is of use in an answer; raises if it is not what it should be.
        """
        jobs = [self.clients[name].job(call, payload) for name, payload in payloads.items()]
        # Clients of this process are asked one after the other: there is nobody to wait for.
        timeout = None if all(job.client.is_here for job in jobs) else self._timeout
        found = {}
        for name, outcome in self._traffic.follow(jobs, self._crew.run(jobs, timeout)):
            try:
                if isinstance(outcome, Exception):
                    raise outcome
                found[name] = check(outcome)
            except Exception as error:  # whatever it is, the others go on
                kind = "" if isinstance(error, SyftError) else f"{type(error).__name__}: "
                self.left_out[name] = shortened(f"{call}: {kind}{error}", MAX_REASON)
        for name in payloads:
            if name not in found:
                self.left_out.setdefault(name, f"{call}: it was too late")
        return {name: found[name] for name in payloads if name in found}

    def reasons(self) -> str:
        """Return why clients dropped out, as far as it helps."""
        if not self.left_out:
            return ""
        name, reason = next(iter(self.left_out.items()))
        return f" {len(self.left_out)} dropped out, among them {name!r:.50} ({reason})."
