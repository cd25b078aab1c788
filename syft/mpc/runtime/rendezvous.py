"""Rendezvous: where workers of one process come together for a run.

Each of them is told of the run by its own message. Who comes last drives the protocols of all of them, in lockstep.
A worker whose messages come in a thread of their own waits there for the end of the run; one that shares the thread
of its client does not have to: the client's next message is not sent before the last party has joined.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

from syft.config import current
from syft.exceptions import PartyLostError, ProtocolError, SyftError
from syft.mpc.runtime import cost_meter, freed_memory, lockstep
from syft.mpc.runtime.lockstep import LockstepParty
from syft.mpc.runtime.party import Party

Start = Callable[[Party], Any]
Finish = Callable[[Any], None]
# Runs that parties still wait for; a client that never calls the others must not fill the memory.
MAX_OPEN = 256
_open: dict[Any, Rendezvous] = {}
# Runs that were given up, and what kind of error it was, for parties that hear of them only afterwards; the oldest are
# forgotten. Not the error itself: it would keep alive whatever was in use when it was raised.
_given_up: dict[Any, str] = {}
_lock = threading.Lock()
_setting = threading.Lock()


@dataclasses.dataclass(frozen=True, slots=True)
class Participant:
    """One who takes part in a run.

    Attributes:
        worker_id: who it is.
        start: makes its coroutine.
        finish: stores its result.
        forms: what it was told of the run, which all must have been told the same of; a helper has other shapes.
    """

    worker_id: Any
    start: Start
    finish: Finish
    forms: Any


class Latch:
    """Something that happens once, and that threads may wait for; made for every run, so it is a bare lock."""

    __slots__ = ("_happened", "_lock")

    def __init__(self) -> None:
        self._happened = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Let it happen; a second time changes nothing."""
        with _setting:
            if self._happened:
                return
            self._happened = True
        self._lock.release()

    def is_set(self) -> bool:
        """Say whether it has happened."""
        return self._happened

    def wait(self, timeout: float = -1) -> bool:
        """Wait until it happens, or for some seconds; says whether it has."""
        if not self._happened and self._lock.acquire(timeout=timeout):
            self._lock.release()  # for the next who waits
        return self._happened


class Rendezvous:
    """A run that workers of this process take part in.

    Args:
        key: who asked for it, and its id.
        count: how many parties hold shares.
        seats: how many take part, with a helper.
    """

    def __init__(self, key: Any, count: int, seats: int) -> None:
        self.key = key
        self.count = count
        self.seats: list[Participant | None] = [None] * seats
        self.computed: list[Any] = []
        self.full = Latch()
        self.done = Latch()
        self.error: Exception | None = None

    def take(self, index: int, seat: Participant) -> bool:
        """Take a seat; says whether it was the last free one."""
        if self.seats[index] is not None:
            raise ProtocolError(f"Worker {seat.worker_id!r} was asked twice to take part in the same run.")
        self.seats[index] = seat
        return None not in self.seats

    def hold(self) -> None:
        """Drive the protocols of all parties, and hand out the results."""
        freed_memory.keep_freed()
        try:
            seated = [seat for seat in self.seats if seat is not None]
            if any(seat.forms != seated[0].forms for seat in seated[1 : self.count]):
                raise ProtocolError(
                    "The parties of a run were asked for different things, or hold shares of other shapes."
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

    def _drive(self, coroutines: list[Any]) -> list[Any]:
        if not cost_meter.meters:
            return lockstep.drive(coroutines, self.count)
        tally, start = lockstep.RunCost(), time.perf_counter()
        results = lockstep.drive(coroutines, self.count, tally)
        seconds = time.perf_counter() - start
        cost_meter.note(self.key, cost_meter.Cost(seconds, tally.rounds, tally.bytes, tally.dealt))
        return results

    def end(self, error: Exception) -> None:
        """Give the run up."""
        self.error = error
        self.full.set()
        self.done.set()

    def wait(self) -> None:
        """Wait until the run is over, and raise what went wrong."""
        if not self.full.wait(current().stream_timeout):
            missing = next(index for index, seat in enumerate(self.seats) if seat is None)
            lost = PartyLostError(
                f"number {missing}", "it did not join in time", "Its shares are still there; ask again when it is back."
            )
            close(self.key, lost)
            raise lost
        self.done.wait()  # somebody drives it now, and comes to an end
        if self.error is not None:
            raise _after(type(self.error).__name__)


def _after(kind: str) -> ProtocolError:
    return ProtocolError(f"The run was given up because another party failed: {kind}.")


def join(key: Any, index: int, count: int, seats: int, seat: Participant, may_wait: bool) -> None:
    """Take part in a run with workers of this process.

    Args:
        key: who asked for it, and its id.
        index: which party this is.
        count: how many parties hold shares.
        seats: how many take part, with a helper.
        seat: who this is, and what it does.
        may_wait: whether this thread may wait for the others.
    """
    with _lock:
        if key in _given_up:
            raise _after(_given_up[key])
        meeting = _open.get(key)
        if meeting is None:
            _make_room()
            meeting = _open[key] = Rendezvous(key, count, seats)
        if (meeting.count, len(meeting.seats)) != (count, seats):
            raise ProtocolError("The parties of a run were told different things about who takes part.")
        if meeting.error is None:
            full = meeting.take(index, seat)
    if meeting.error is not None:
        meeting.wait()
    elif full:
        meeting.full.set()
        try:
            meeting.hold()
        finally:
            with _lock:
                _open.pop(key, None)
    elif may_wait:
        meeting.wait()


def _make_room() -> None:
    waiting = [key for key, meeting in _open.items() if not meeting.full.is_set()]
    for oldest in waiting[: max(0, len(waiting) + 1 - MAX_OPEN)]:
        _open.pop(oldest).end(SyftError("too many runs were begun and not joined by all their parties"))


def close(key: Any, error: Exception) -> None:
    """Give up a run that can't take place, so that nobody waits for it, whether it has heard of it yet or not."""
    with _lock:
        meeting = _open.pop(key, None)
        _given_up[key] = type(error).__name__
        while len(_given_up) > MAX_OPEN:
            del _given_up[next(iter(_given_up))]
    if meeting is not None and not meeting.done.is_set():
        meeting.end(error)


def settle(key: Any) -> None:
    """Wait for a run that is not over yet (the client of parties that answer in different ways)."""
    with _lock:
        meeting = _open.get(key)
    if meeting is not None:
        meeting.wait()
