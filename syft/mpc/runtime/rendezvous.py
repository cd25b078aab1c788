"""Rendezvous: workers of one process meet for a run and execute it in lockstep.

Each worker receives its own message about the run. The last one to join drives the protocols of all of them. A worker
whose messages arrive in a thread of their own waits there for the end of the run. A worker that shares the thread of
its client need not wait: the client sends its next message only after the last party has joined.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

from syft.config import current
from syft.core.id_provider import ObjectId
from syft.exceptions import PartyLostError, ProtocolError, SyftError
from syft.mpc.runtime import cost_meter, freed_memory, lockstep
from syft.mpc.runtime.lockstep import LockstepParty
from syft.mpc.runtime.party import Party, PartyCoroutine

# The client of a run, and the run's id.
RunKey = tuple[object, ObjectId]
Start = Callable[[Party], PartyCoroutine]
Finish = Callable[[Any], None]
# Limits runs that wait for parties: a client that never calls the others must not fill the memory.
MAX_OPEN = 256
_open: dict[RunKey, Rendezvous] = {}
# Aborted runs and the type of the error, for parties that join later; the oldest are dropped. The error itself is not
# stored: it would keep its frames alive.
_aborted: dict[RunKey, str] = {}
_lock = threading.Lock()
_setting = threading.Lock()


@dataclasses.dataclass(frozen=True, slots=True)
class Participant:
    """A worker that takes part in a run.

    Attributes:
        worker_id: the id of the worker.
        start: makes its coroutine.
        finish: stores its result.
        agreement: the run's arguments; must be equal at every party. A helper has other shapes.
    """

    worker_id: ObjectId
    start: Start
    finish: Finish
    agreement: object


class Latch:
    """An event that is set once; each run makes two, so it is a bare lock and not a `threading.Event`."""

    __slots__ = ("_is_set", "_lock")

    def __init__(self) -> None:
        self._is_set = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Set the latch; a second call changes nothing."""
        with _setting:
            if self._is_set:
                return
            self._is_set = True
        self._lock.release()

    def is_set(self) -> bool:
        """Return whether the latch is set."""
        return self._is_set

    def wait(self, timeout: float = -1) -> bool:
        """Wait until the latch is set, or for `timeout` seconds; returns whether it is set."""
        if not self._is_set and self._lock.acquire(timeout=timeout):
            self._lock.release()  # for the next thread that waits
        return self._is_set


class Rendezvous:
    """A run of workers of this process.

    Args:
        key: the client and the run's id.
        count: the number of parties that hold shares.
        seats: the number of participants, with a helper.
    """

    def __init__(self, key: RunKey, count: int, seats: int) -> None:
        self.key = key
        self.count = count
        self.seats: list[Participant | None] = [None] * seats
        self.computed: list[Any] = []
        self.full = Latch()
        self.done = Latch()
        self.error: Exception | None = None

    def add(self, index: int, participant: Participant) -> bool:
        """Add a participant; returns whether it was the last one."""
        if self.seats[index] is not None:
            raise ProtocolError(f"Worker {participant.worker_id!r} received two messages about the same run.")
        self.seats[index] = participant
        return None not in self.seats

    def run(self) -> None:
        """Drive the protocols of all parties, and hand out the results."""
        freed_memory.keep_freed()
        try:
            seated = [seat for seat in self.seats if seat is not None]
            if any(seat.agreement != seated[0].agreement for seat in seated[1 : self.count]):
                raise ProtocolError(
                    "The parties of a run received different requests, or hold shares of different shapes."
                )
            parties = [LockstepParty(index, self.count, self.computed) for index in range(len(seated))]
            coroutines = [seat.start(party) for party, seat in zip(parties, seated, strict=True)]
            results = self._drive(coroutines)
            for seat, result in zip(seated, results, strict=True):
                seat.finish(result)
        except Exception as error:
            self.error = error
            raise
        finally:
            self.done.set()

    def _drive(self, coroutines: list[PartyCoroutine]) -> list[Any]:
        if not cost_meter.meters:
            return lockstep.drive(coroutines, self.count)
        tally, start = lockstep.RunCost(), time.perf_counter()
        results = lockstep.drive(coroutines, self.count, tally)
        seconds = time.perf_counter() - start
        cost_meter.note(self.key, cost_meter.Cost(seconds, tally.rounds, tally.bytes, tally.dealt))
        return results

    def abort(self, error: Exception) -> None:
        """End the run with an error, before it starts."""
        self.error = error
        self.full.set()
        self.done.set()

    def wait(self) -> None:
        """Wait until the run is over, and raise its error."""
        if not self.full.wait(current().stream_timeout):
            missing = next(index for index, seat in enumerate(self.seats) if seat is None)
            lost = PartyLostError(
                f"number {missing}", "it did not join in time", "Its shares are still there; retry when it is back."
            )
            close(self.key, lost)
            raise lost
        self.done.wait()  # another thread drives the run now, so it ends
        if self.error is not None:
            raise _aborted_by(type(self.error).__name__)


def _aborted_by(error_type: str) -> ProtocolError:
    return ProtocolError(f"The run was aborted because another party failed with a {error_type}.")


def join(key: RunKey, index: int, count: int, seats: int, participant: Participant, may_wait: bool) -> None:
    """Take part in a run with workers of this process.

    Args:
        key: the client and the run's id.
        index: the index of this party.
        count: the number of parties that hold shares.
        seats: the number of participants, with a helper.
        participant: this party.
        may_wait: whether this thread may wait for the others.
    """
    with _lock:
        if key in _aborted:
            raise _aborted_by(_aborted[key])
        rendezvous = _open.get(key)
        if rendezvous is None:
            _make_room()
            rendezvous = _open[key] = Rendezvous(key, count, seats)
        if (rendezvous.count, len(rendezvous.seats)) != (count, seats):
            raise ProtocolError("The parties of a run received different numbers of participants.")
        if rendezvous.error is None:
            is_full = rendezvous.add(index, participant)
    if rendezvous.error is not None:
        rendezvous.wait()
    elif is_full:
        rendezvous.full.set()
        try:
            rendezvous.run()
        finally:
            with _lock:
                _open.pop(key, None)
    elif may_wait:
        rendezvous.wait()


def _make_room() -> None:
    waiting = [key for key, rendezvous in _open.items() if not rendezvous.full.is_set()]
    for oldest in waiting[: max(0, len(waiting) + 1 - MAX_OPEN)]:
        _open.pop(oldest).abort(SyftError("too many runs were started and not joined by all their parties"))


def close(key: RunKey, error: Exception) -> None:
    """Abort a run that can't take place, so that no party waits for it, now or when it joins later."""
    with _lock:
        rendezvous = _open.pop(key, None)
        _aborted[key] = type(error).__name__
        while len(_aborted) > MAX_OPEN:
            del _aborted[next(iter(_aborted))]
    if rendezvous is not None and not rendezvous.done.is_set():
        rendezvous.abort(error)


def barrier(key: RunKey) -> None:
    """Wait until a run is over: for the client of parties of which only some run in its thread."""
    with _lock:
        rendezvous = _open.get(key)
    if rendezvous is not None:
        rendezvous.wait()
