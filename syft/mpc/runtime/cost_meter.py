"""Cost meter: the cost of each run inside a `with` block.

Runs of workers in this process are recorded here when they end. Workers in processes of their own record their runs
from the first one inside the block, and send the records when the block ends.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ObjectId
from syft.display.facts import FactList, Shown

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

BEGIN, READ = "syft.mpc_meter", "syft.mpc_metered"
# Runs that a worker records for a client that does not fetch them.
MAX_NOTED = 1 << 16


@dataclasses.dataclass(slots=True, repr=False)
class RunCost(Shown):
    """The cost of runs, at one party or at all parties of this process.

    Attributes:
        seconds: their duration.
        rounds: the number of communication rounds.
        bytes: bytes that the busiest party sent to others.
        dealt: bytes that the dealer sent.
        runs: the number of runs.
    """

    seconds: float = 0.0
    rounds: int = 0
    bytes: int = 0
    dealt: int = 0
    runs: int = 0

    def add(self, other: RunCost) -> None:
        """Add the cost of other runs."""
        for field in dataclasses.fields(RunCost):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def _facts(self) -> FactList:
        yield from (("runs", self.runs), ("rounds", self.rounds), ("seconds", self.seconds))
        yield from (("bytes a party", self.bytes), ("bytes dealt", self.dealt))

    def __repr__(self) -> str:
        return f"<{self.runs} runs, {self.rounds} rounds, {self.bytes} bytes a party, {self.dealt} bytes dealt>"


def together(costs: list[RunCost]) -> RunCost:
    """Return the cost of a run from the costs at its parties: the maxima, and the sum of the dealt bytes."""
    seconds, rounds, sent = (max(getattr(cost, name) for cost in costs) for name in ("seconds", "rounds", "bytes"))
    return RunCost(seconds, rounds, sent, sum(cost.dealt for cost in costs), runs=1)


class Meter:
    """The costs of the runs of this process's clients inside a `with` block.

    Attributes:
        costs: for each run, its cost here or at each party.
        remote: the runs at workers in processes of their own.
        total_here: the cost of the runs in this process.
    """

    def __init__(self) -> None:
        self.total_here = RunCost()
        self.costs: dict[object, list[RunCost]] = {}
        self.remote: set[object] = set()
        self._started: set[object] = set()

    def begun(self, key: object, name: str) -> None:
        """Record the start of a run by a client of this process."""
        self._started.add(key)

    def ended(self, key: object, cost: RunCost, remote: bool) -> None:
        """Record the cost of a run at a party, unless it started before this meter."""
        if remote and key not in self._started:
            return
        self.costs.setdefault(key, []).append(cost)
        if remote:
            self.remote.add(key)
        else:
            self.total_here.add(cost)

    def __enter__(self) -> Meter:
        with _lock:
            meters.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            _collect(stop=len(meters) == 1)
        finally:
            with _lock:
                meters[:] = [other for other in meters if other is not self]


meters: list[Meter] = []
# Workers in processes of their own that record their runs, with the client that started it.
_recording: dict[ObjectId, tuple[BaseWorker, BaseWorker]] = {}
_lock = threading.RLock()


def begin(key: object, name: str, owner: BaseWorker, workers: Sequence[BaseWorker]) -> None:
    """Record the start of a run, and start recording at its workers."""
    for worker in workers:
        if getattr(worker, "in_own_process", False) and worker.id not in _recording:
            _recording[worker.id] = (owner, worker)
            owner.send_command(worker, (BEGIN, None, (), {}))
    for meter in list(meters):
        meter.begun(key, name)


def note(key: object, cost: RunCost, remote: bool = False) -> None:
    """Record the cost of a run that is over."""
    for meter in list(meters):
        meter.ended(key, cost, remote)


def _collect(stop: bool) -> None:
    """Fetch the records of workers in processes of their own."""
    recording = list(_recording.values())
    if stop:
        _recording.clear()
    for owner, worker in recording:
        for run_id, seconds, rounds, sent, dealt in owner.send_command(worker, (READ, None, (stop,), {})):
            note((owner.id, run_id), RunCost(seconds, rounds, sent, dealt, runs=1), remote=True)


class CostNotes:
    """The costs of runs at a worker in a process of its own, for each client that wants them."""

    def __init__(self) -> None:
        self._noted: dict[object, list[tuple[Any, ...]]] = {}

    def begin(self, client_id: object) -> None:
        """Start recording the runs of a client."""
        self._noted.setdefault(client_id, [])

    def add(self, client_id: object, run_id: ObjectId, cost: RunCost) -> None:
        """Record a run, if its client wants that."""
        noted = self._noted.get(client_id)
        if noted is not None and len(noted) < MAX_NOTED:
            noted.append((run_id, cost.seconds, cost.rounds, cost.bytes, cost.dealt))

    def forget(self, client_id: object) -> None:
        """Stop recording for a client whose session has ended."""
        self._noted.pop(client_id, None)

    def read(self, client_id: object, stop: bool) -> tuple[Any, ...]:
        """Return the records since the last call, and stop recording if `stop` is set."""
        noted = tuple(self._noted.pop(client_id, ()))
        if not stop:
            self.begin(client_id)
        return noted


@contextmanager
def count() -> Iterator[RunCost]:
    """Count runs, rounds and bytes of the protocols inside a `with` block, at parties of any kind.

    Runs in this process are counted at once, runs in other processes when the block ends.
    """
    meter = Meter()
    try:
        with meter:
            yield meter.total_here
    finally:
        for key in meter.remote:
            meter.total_here.add(together(meter.costs[key]))
