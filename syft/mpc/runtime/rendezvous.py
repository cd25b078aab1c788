"""Rendezvous: workers of one process meet for a run and execute it in lockstep.

Each worker receives its own message about the run. The last one to join drives the protocols of all of them. A worker
whose messages arrive in a thread of their own waits there for the end of the run. A worker that shares the thread of
its client need not wait: the client sends its next message only after the last party has joined.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

from syft.config import current
from syft.core.id_provider import ObjectId
from syft.exceptions import PartyLostError, ProtocolError, SyftError
from syft.mpc.runtime import freed_memory, lockstep
from syft.mpc.runtime.party import Party, PartyCoroutine

# The client of a run, and the run's id: clients choose ids, so an id is unique for its client only.
RunKey = tuple[object, ObjectId]
Start = Callable[[Party], PartyCoroutine]
Finish = Callable[[Any], None]
# Returns the start function, and what must be equal at every party.
Prepare = Callable[[], tuple[Start, object]]
# Limits runs that wait for parties: a client that never calls the others must not fill the memory.
MAX_OPEN = 256
_open: dict[RunKey, Rendezvous] = {}
# Aborted runs and the type of the error, for parties that join later; the oldest are dropped. The error itself is not
# stored: it would keep its frames alive.
_aborted: dict[RunKey, str] = {}
# Guards the runs, and is notified at the end of each.
_changed = threading.Condition()


@dataclasses.dataclass(frozen=True, slots=True)
class Participant:
    """A worker that takes part in a run; the agreement must be equal at every party that holds shares."""

    worker_id: ObjectId
    start: Start
    finish: Finish
    agreement: object


class Rendezvous:
    """A run of workers of this process: `count` parties that hold shares, and a helper if there are more seats."""

    def __init__(self, key: RunKey, count: int, seats: int) -> None:
        self.key = key
        self.count = count
        self.seats: list[Participant | None] = [None] * seats
        self.is_done = False
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
            parties = lockstep.parties(self.count, len(seated) > self.count)
            coroutines = [seat.start(party) for party, seat in zip(parties, seated, strict=True)]
            results = lockstep.drive(coroutines, self.count, self.key)
            for seat, result in zip(seated, results, strict=True):
                seat.finish(result)
        except Exception as error:
            self.error = error
            raise
        finally:
            self._end()

    def _end(self) -> None:
        with _changed:
            self.is_done = True
            _changed.notify_all()

    def abort(self, error: Exception) -> None:
        """End the run with an error, before it starts."""
        self.error = error
        self._end()

    def wait(self) -> None:
        """Wait until the run is over, and raise its error."""
        with _changed:
            if not _changed.wait_for(lambda: self.is_done, current().stream_timeout) and None in self.seats:
                missing = self.seats.index(None)
                lost = PartyLostError(
                    f"number {missing}", "it did not join in time", "Its shares are still there; retry when it is back."
                )
                close(self.key, lost)
                raise lost
            _changed.wait_for(lambda: self.is_done)  # another thread drives the run now, so it ends
        if self.error is not None:
            raise _aborted_by(type(self.error).__name__)


def _aborted_by(error_type: str) -> ProtocolError:
    return ProtocolError(f"The run was aborted because another party failed with a {error_type}.")


def join(key: RunKey, index: int, count: int, seats: int, participant: Participant, may_wait: bool) -> None:
    """Take part in a run with workers of this process."""
    with _changed:
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
        try:
            rendezvous.run()
        finally:
            with _changed:
                _open.pop(key, None)
    elif may_wait:
        rendezvous.wait()


def _make_room() -> None:
    waiting = [key for key, rendezvous in _open.items() if None in rendezvous.seats]
    for oldest in waiting[: max(0, len(waiting) + 1 - MAX_OPEN)]:
        _open.pop(oldest).abort(SyftError("too many runs were started and not joined by all their parties"))


def close(key: RunKey, error: Exception) -> None:
    """Abort a run that can't take place, so that no party waits for it, now or when it joins later."""
    with _changed:
        rendezvous = _open.pop(key, None)
        _aborted[key] = type(error).__name__
        while len(_aborted) > MAX_OPEN:
            del _aborted[next(iter(_aborted))]
    if rendezvous is not None and not rendezvous.is_done:
        rendezvous.abort(error)


def barrier(key: RunKey) -> None:
    """Wait until a run is over: for the client of parties of which only some run in its thread."""
    with _changed:
        rendezvous = _open.get(key)
    if rendezvous is not None:
        rendezvous.wait()
