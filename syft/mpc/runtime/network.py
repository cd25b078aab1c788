"""Network: one party of a run in a process of its own, driving its protocol and talking to the others directly.

Parties find each other by what the maker of their processes told them. All runs of one client with the same parties
use the same connections, one run after the other, as the client's messages say.
"""

from __future__ import annotations

import functools
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from syft.config import current, override
from syft.exceptions import ProtocolError
from syft.mpc.dealer import wire_protocol
from syft.mpc.links import party_link
from syft.mpc.runtime import cost_meter, freed_memory, lockstep
from syft.mpc.runtime.dealer_service import Provider
from syft.mpc.runtime.group import KNOCK, MESH, PINNED_KNOCK, PINNED_MESH, Group, PendingParties
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.party_run import ATTEMPTS, PartyRun
from syft.workers.execution.execute import WORKER_COMMANDS
from syft.workers.transport.socket_stream import PURPOSES, SERVED, PeerIdentity

COST = "syft.mpc_cost"
# Groups of one client that are kept.
MAX_GROUPS = 256


def whose_runs(session: Any) -> Any:
    """Return what stands for whoever asks for runs one after the other: all who take part hear of them in this order.

    A worker that acts for a client, and a guest of a served model, are not the client itself.
    """
    if session.circle is None:
        return session.client_id
    return (session.circle, session.via, getattr(session, "guest_id", None))


class Runtime:
    """What a worker in a process of its own takes part in runs with.

    Args:
        worker: the worker.
    """

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.provider = Provider()
        self.cost = lockstep.RunCost()
        self.notes = cost_meter.CostNotes()
        self._groups: dict[Any, Group] = {}
        self.lobby = PendingParties(worker)
        self._circles: weakref.WeakSet[Any] = weakref.WeakSet()
        self._lock = threading.Lock()

    def run(
        self,
        session: Any,
        message: Any,
        index: int,
        seats: int,
        start: Callable[[Party], Any],
        finish: Any,
        pins: Mapping[Any, str] | None = None,
    ) -> None:
        """Take part in a run until its end.

        Args:
            session: whose run it is.
            message: which run.
            index: which party this is.
            seats: how many take part, with a helper.
            start: makes the coroutine of this party.
            finish: stores its result.
            pins: the fingerprints of the keys that parties and dealer must prove, by id; None: they are known by id.
        """
        with self._waiting_for(session), self._group(session, message, seats, pins) as group:
            if PartyRun(group, message).tag[: party_link.ID_BYTES] in group.over:
                raise ProtocolError("A run with this id is over; another one needs another id.")
            # A helper can't tell that the others begin anew, so a run with one is given up; the next finds them agreed.
            attempts = ATTEMPTS if group.helper is None else 1
            began = time.perf_counter()
            for attempt in range(attempts):
                run = PartyRun(group, message, attempt)
                try:
                    group.meet(run.timeout)
                    finish(run.drive(start(Party(index, len(message.parties)))))
                    run.deals.end()
                    return
                except party_link.Disagreement as error:
                    # After a run that failed some parties have taken more from the dealer than others.
                    if attempt + 1 == attempts:
                        run.give_up(error)
                        raise ProtocolError(str(error)) from None
                except Exception as error:
                    run.give_up(error)
                    raise
                finally:
                    group.end(run.tag)
                    run.settle(self.cost)
                    cost = cost_meter.Cost(time.perf_counter() - began, run.rounds, run.sent, run.deals.bytes)
                    self.notes.add(session.circle or session.client_id, message.run_id, cost)

    def give_up(
        self, session: Any, message: Any, seats: int, error: Exception, pins: Mapping[Any, str] | None = None
    ) -> None:
        """Tell the other parties that this one can't take part in a run."""
        with self._waiting_for(session), self._group(session, message, seats, pins) as group:
            run = PartyRun(group, message)
            run.give_up(error)
            group.end(run.tag)

    def _waiting_for(self, session: Any) -> Any:
        """Wait for others as long as the client does, if that is less than what is usual here."""
        circle = session.circle
        if circle is None:
            return nullcontext()
        self.join(circle)
        return override(stream_timeout=min(current().stream_timeout, circle.timeout))

    @contextmanager
    def _group(self, session: Any, message: Any, seats: int, pins: Mapping[Any, str] | None = None) -> Iterator[Group]:
        """Give the group of a run, for one run at a time."""
        count = len(message.parties)
        members = (*message.parties, *((message.provider,) if seats > count else ()))
        circle = session.circle
        whose = whose_runs(session)
        key = (whose, members, message.provider, tuple((pins or {}).items()))
        while True:
            with self._lock:
                group = self._groups.get(key)
                if group is None:
                    mine = None if pins is None else pins[self.worker.id]
                    here = functools.partial(self.provider.serve, PeerIdentity(self.worker.id, circle, mine))
                    known = session.client_id if circle is None else (circle.name, *whose[1:])
                    group = Group(self.lobby, known, members, count, message.provider, here, circle, pins)
                    self._groups[key] = group
                    self._make_room(whose)
            with group.lock:
                if not group.is_closed:  # it may have been left meanwhile
                    yield group
                    return

    def join(self, circle: Any) -> None:
        """See to it that what belongs to a client's circle ends with it."""
        with self._lock:
            if circle in self._circles:
                return
            self._circles.add(circle)
        circle.at_end(lambda: self._leave_circle(circle))

    def _leave_circle(self, circle: Any) -> None:
        with self._lock:
            left = [
                self._groups.pop(key) for key in list(self._groups) if type(key[0]) is tuple and key[0][0] is circle
            ]
        for group in left:
            group.close()
        self.lobby.leave(circle)
        self.notes.forget(circle)

    def leave(self, session: Any) -> None:
        """Leave the groups of a client that does not come again, whatever runs in them."""
        whose = whose_runs(session)
        with self._lock:
            left = [self._groups.pop(key) for key in list(self._groups) if key[0] == whose]
        for group in left:
            group.close()

    def close(self) -> None:
        """Leave all groups."""
        with self._lock:
            while self._groups:
                self._groups.popitem()[1].close()
        self.lobby.close()

    def _make_room(self, whose: Any) -> None:
        """Leave the groups of a client that were joined first, except those with a run."""
        for key in [key for key in self._groups if key[0] == whose][:-MAX_GROUPS]:
            group = self._groups[key]
            if group.lock.acquire(blocking=False):
                try:
                    self._groups.pop(key).close()
                finally:
                    group.lock.release()


def _take_mesh(worker: Any, visitor: PeerIdentity, purpose: str, sock: socket.socket) -> None:
    if visitor.circle is not None:
        worker.mpc_runtime.join(visitor.circle)
    worker.mpc_runtime.lobby.arrive(visitor.circle, visitor.id, purpose.partition(":")[2], sock)


def _take_dealing(worker: Any, visitor: PeerIdentity, purpose: str, sock: socket.socket) -> None:
    worker.mpc_runtime.provider.serve(visitor, sock)


def _proven(worker: Any, visitor: PeerIdentity, purpose: str, sock: socket.socket) -> PeerIdentity:
    """Prove to each other who one is; returns the visitor with its key. Processes of one program have no keys."""
    acquaintances = getattr(worker, "acquaintances", None)
    if acquaintances is None or visitor.circle is None:
        return visitor
    return visitor._replace(key=acquaintances.prover.listen(sock, visitor.id, purpose))


def _take_pinned_mesh(worker: Any, visitor: PeerIdentity, purpose: str, sock: socket.socket) -> None:
    visitor = _proven(worker, visitor, purpose, sock)
    if visitor.key is None:
        sock.close()  # it is kept all the same, so that a party that waits for it is notified at once
    if visitor.circle is not None:
        worker.mpc_runtime.join(visitor.circle)
    worker.mpc_runtime.lobby.arrive(visitor.circle, visitor.id, purpose.partition(":")[2], sock, visitor.key)


def _take_pinned_dealing(worker: Any, visitor: PeerIdentity, purpose: str, sock: socket.socket) -> None:
    visitor = _proven(worker, visitor, purpose, sock)
    if visitor.key is None:
        sock.close()
        return
    worker.mpc_runtime.provider.serve(visitor, sock)


def _take_pinned_knock(worker: Any, visitor: PeerIdentity, purpose: str, sock: socket.socket) -> None:
    _proven(worker, visitor, purpose, sock)
    sock.close()


def _take_knock(worker: Any, visitor: PeerIdentity, purpose: str, sock: socket.socket) -> None:
    sock.close()


def _cost(worker: Any, session: Any) -> tuple[int, int, int, int]:
    """Say what the runs at a worker cost so far: runs, rounds, bytes sent to other parties, bytes dealt."""
    cost = worker.mpc_runtime.cost
    return (cost.runs, cost.rounds, cost.bytes, cost.dealt)


def _begin_notes(worker: Any, session: Any) -> None:
    """Note what the runs of a client cost, from now on."""
    if session.circle is not None:
        worker.mpc_runtime.join(session.circle)
    worker.mpc_runtime.notes.begin(session.circle or session.client_id)


def _read_notes(worker: Any, session: Any, stop: bool) -> tuple[Any, ...]:
    """Say what the runs of a client cost since it asked last: id, seconds, rounds, bytes sent, bytes dealt of each."""
    return tuple(worker.mpc_runtime.notes.read(session.circle or session.client_id, bool(stop)))


def _prepare(worker: Any) -> None:
    freed_memory.keep_freed()
    worker.mpc_runtime = Runtime(worker)


PURPOSES.update({MESH: _take_mesh, wire_protocol.PURPOSE: _take_dealing, KNOCK: _take_knock})
PURPOSES.update({PINNED_MESH: _take_pinned_mesh, PINNED_KNOCK: _take_pinned_knock})
PURPOSES[wire_protocol.PINNED_PURPOSE] = _take_pinned_dealing
WORKER_COMMANDS.update({COST: _cost, cost_meter.BEGIN: _begin_notes, cost_meter.READ: _read_notes})
SERVED.append(_prepare)
