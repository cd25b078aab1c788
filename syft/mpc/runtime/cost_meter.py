"""Metering: what each run costs, while somebody wants to know.

Runs of workers in this process are noted here when they end. A worker in a process of its own is told to note its runs
before the first of them, and asked for them when the block ends that wants to know.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from syft.mpc.runtime import lockstep
from syft.mpc.runtime.lockstep import RunCost

BEGIN, READ = "syft.mpc_meter", "syft.mpc_metered"
# How many runs a worker notes for a client that does not ask for them.
MAX_NOTED = 1 << 16


class Cost(NamedTuple):
    """What one run cost at one party, or at all parties of this process.

    Attributes:
        seconds: from its begin to its end.
        rounds: how often the parties waited for each other.
        bytes: what the busiest party sent to others.
        dealt: what the dealer sent.
    """

    seconds: float
    rounds: int
    bytes: int
    dealt: int


def together(costs: list[Cost]) -> Cost:
    """Return the cost of a run from those at its parties: as slow as the slowest, and the dealer sends to each."""
    seconds, rounds, sent, dealt = zip(*costs, strict=True)
    return Cost(max(seconds), max(rounds), max(sent), sum(dealt))


class Meter:
    """What the runs of this process's clients cost, from its begin to its end.

    Attributes:
        costs: for each run, what it cost here or at each party.
        remote: the runs that were at workers in processes of their own.
    """

    def __init__(self) -> None:
        self.costs: dict[Any, list[Cost]] = {}
        self.remote: set[Any] = set()
        self._heard: set[Any] = set()

    def begun(self, key: Any, name: str) -> None:
        """Hear of a run that a client of this process asks for."""
        self._heard.add(key)

    def ended(self, key: Any, cost: Cost, remote: bool) -> None:
        """Note what a run cost at a party; others may have been begun before this one wanted to know."""
        if remote and key not in self._heard:
            return
        self.costs.setdefault(key, []).append(cost)
        if remote:
            self.remote.add(key)

    def __enter__(self) -> Meter:
        with _lock:
            meters.append(self)
        return self

    def __exit__(self, *exception: Any) -> None:
        try:
            _collect(stop=len(meters) == 1)
        finally:
            with _lock:
                meters[:] = [other for other in meters if other is not self]


meters: list[Meter] = []
# The workers in processes of their own that were told to note their runs, and who told them.
_told: dict[Any, Any] = {}
_lock = threading.RLock()


def begin(key: Any, name: str, owner: Any, workers: list[Any]) -> None:
    """Note that a client asks for a run, and tell workers that note nothing yet to do so."""
    for worker in workers:
        if getattr(worker, "in_own_process", False) and worker.id not in _told:
            _told[worker.id] = (owner, worker)
            owner.send_command(worker, (BEGIN, None, (), {}))
    for meter in list(meters):
        meter.begun(key, name)


def note(key: Any, cost: Cost, remote: bool = False) -> None:
    """Note what a run cost that is over."""
    for meter in list(meters):
        meter.ended(key, cost, remote)


def _collect(stop: bool) -> None:
    """Ask workers in processes of their own for what they noted."""
    told = list(_told.values())
    if stop:
        _told.clear()
    for owner, worker in told:
        for run_id, *figures in owner.send_command(worker, (READ, None, (stop,), {})):
            note((owner.id, run_id), Cost(*figures), remote=True)


class CostNotes:
    """What a worker in a process of its own notes of its runs, for each client that asked for it."""

    def __init__(self) -> None:
        self._noted: dict[Any, list[tuple[Any, ...]]] = {}

    def begin(self, client_id: Any) -> None:
        """Begin to note the runs of a client."""
        self._noted.setdefault(client_id, [])

    def add(self, client_id: Any, run_id: Any, cost: Cost) -> None:
        """Note a run, if its client asked for that."""
        noted = self._noted.get(client_id)
        if noted is not None and len(noted) < MAX_NOTED:
            noted.append((run_id, *cost))

    def forget(self, client_id: Any) -> None:
        """Note no more for a client that is gone."""
        self._noted.pop(client_id, None)

    def read(self, client_id: Any, stop: bool) -> tuple[Any, ...]:
        """Return what was noted since the last time; and note no more, if so asked."""
        noted = tuple(self._noted.pop(client_id, ()))
        if not stop:
            self.begin(client_id)
        return noted


@contextmanager
def count() -> Iterator[RunCost]:
    """Count runs, rounds and bytes of the protocols inside a `with` block, wherever their parties live.

    What parties in this process do is counted at once, what others do when the block ends.
    """
    with lockstep.count() as tally:
        meter = Meter()
        try:
            with meter:
                yield tally
        finally:
            for key in meter.remote:
                tally.add(together(meter.costs[key]))
