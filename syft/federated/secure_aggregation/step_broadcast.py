"""One step of secure aggregation for all clients of a round. A client that fails, refuses or is late drops out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from syft.exceptions import SyftError
from syft.federated.history.round_outcome import MAX_REASON, shortened
from syft.federated.server.dispatch import Job, MixedDispatcher
from syft.federated.server.traffic import Traffic


class StepBroadcast:
    """The clients of one round by name, in order, and the reasons of those that dropped out."""

    def __init__(self, run: str, clients: Mapping[str, Any], timeout: float, traffic: Traffic) -> None:
        self.left_out: dict[str, str] = {}
        self._run, self._clients = run, clients
        self._timeout, self._traffic = timeout, traffic
        self._dispatcher = MixedDispatcher()

    def ask(self, call: str, payloads: Mapping[str, dict[str, Any]], check: Callable[[Any], Any]) -> dict[str, Any]:
        """Call clients for a step, and return the checked responses in the order of the clients.

        `check` returns the useful part of a response, or raises if it is invalid.
        """
        jobs = [Job(self._clients[name], self._run, call, payload) for name, payload in payloads.items()]
        # Local clients run one after the other, so a timeout is not needed.
        timeout = None if all(job.client.is_here for job in jobs) else self._timeout
        found = {}
        for name, outcome in self._traffic.follow(jobs, self._dispatcher.run(jobs, timeout)):
            try:
                if isinstance(outcome, Exception):
                    raise outcome
                found[name] = check(outcome)
            except Exception as error:  # any error: the round continues with the others
                kind = "" if isinstance(error, SyftError) else f"{type(error).__name__}: "
                self.left_out[name] = shortened(f"{call}: {kind}{error}", MAX_REASON)
        for name in payloads:
            if name not in found:
                self.left_out.setdefault(name, f"{call}: it was too late")
        return {name: found[name] for name in payloads if name in found}

    def reasons(self) -> str:
        """Return the first reason why clients dropped out."""
        if not self.left_out:
            return ""
        name, reason = next(iter(self.left_out.items()))
        return f" {len(self.left_out)} dropped out, among them {name!r:.50} ({reason})."
