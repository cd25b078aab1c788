"""Network: one party of a run in a process of its own, which drives its protocol and connects to the others directly.

Parties know each other's addresses from the program that created their processes, or from introductions by a client.
All runs of one client with the same parties use the same connections, one run after the other, in the order of the
client's messages.
"""

from __future__ import annotations

import functools
import socket
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from syft.config import current, override
from syft.exceptions import ProtocolError
from syft.mpc.dealer import wire_protocol
from syft.mpc.links import party_link
from syft.mpc.runtime import cost_meter, freed_memory, lockstep
from syft.mpc.runtime.dealer_service import Provider
from syft.mpc.runtime.group import MESH, PINNED_MESH, PINNED_PROBE, PROBE, Group, PendingParties
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.party_run import ATTEMPTS, PartyRun
from syft.mpc.runtime.rendezvous import Finish, Start
from syft.workers.execution.execute import WORKER_COMMANDS
from syft.workers.transport.socket_stream import PURPOSES, SERVED, PeerIdentity

if TYPE_CHECKING:
    from syft.core.id_provider import ObjectId
    from syft.messaging.message import RunMessage
    from syft.workers.base import BaseWorker
    from syft.workers.delegation.grants import Delegation
    from syft.workers.execution.session import Session

    class PartyWorker(BaseWorker):
        """A worker in a process of its own, after `_prepare`."""

        mpc_runtime: Runtime


COST = "syft.mpc_cost"
# Groups of one client that are open at a time.
MAX_GROUPS = 256
# Purposes of connections on which both ends prove their keys first.
_PINNED = frozenset({PINNED_MESH, PINNED_PROBE, wire_protocol.PINNED_PURPOSE})


def run_order(session: Session) -> Any:
    """Return the key of the clients whose runs are ordered: all participants receive them in the same order.

    A worker that acts for a client, and a guest of a served model, are ordered apart from the client itself.
    """
    if session.delegation is None:
        return session.client_id
    return (session.delegation, session.via, getattr(session, "guest_id", None))


class Runtime:
    """The connections, the dealer and the cost counters of a worker in a process of its own.

    Args:
        worker: the worker.
    """

    def __init__(self, worker: BaseWorker) -> None:
        self.worker = worker
        self.provider = Provider()
        self.cost = lockstep.RunCost()
        self.notes = cost_meter.CostNotes()
        self._groups: dict[Any, Group] = {}
        self.pending = PendingParties(worker)
        self._circles: weakref.WeakSet[Delegation] = weakref.WeakSet()
        self._lock = threading.Lock()

    def run(
        self,
        session: Session,
        message: RunMessage,
        index: int,
        seats: int,
        start: Start,
        finish: Finish,
        pins: Mapping[ObjectId, str] | None = None,
    ) -> None:
        """Take part in a run until its end.

        Args:
            session: the client's session.
            message: the run.
            index: the index of this party.
            seats: the number of participants, with a helper.
            start: makes the coroutine of this party.
            finish: stores its result.
            pins: the key fingerprints that parties and dealer must prove, by id; None: they are identified by id.
        """
        with self._client_timeout(session), self._group(session, message, seats, pins) as group:
            if PartyRun(group, message).tag[: party_link.ID_BYTES] in group.over:
                raise ProtocolError(f"Run {message.run_id!r} is over. Another run needs another id.")
            # A helper can't see that the others start again, so a run with a helper has one attempt.
            attempts = ATTEMPTS if group.helper is None else 1
            started = time.perf_counter()
            for attempt in range(attempts):
                run = PartyRun(group, message, attempt)
                try:
                    group.connect_pinned(run.timeout)
                    finish(run.drive(start(Party(index, len(message.parties)))))
                    run.deals.end()
                    return
                except party_link.DisagreementError as error:
                    # After a failed run, some parties have used more deals than others.
                    if attempt + 1 == attempts:
                        run.give_up(error)
                        raise ProtocolError(str(error)) from None
                except Exception as error:
                    run.give_up(error)
                    raise
                finally:
                    group.end(run.tag)
                    run.record_cost(self.cost)
                    cost = cost_meter.Cost(time.perf_counter() - started, run.rounds, run.sent, run.deals.bytes)
                    self.notes.add(session.delegation or session.client_id, message.run_id, cost)

    def give_up(
        self,
        session: Session,
        message: RunMessage,
        seats: int,
        error: Exception,
        pins: Mapping[ObjectId, str] | None = None,
    ) -> None:
        """Notify the other parties that this one can't take part in a run."""
        with self._client_timeout(session), self._group(session, message, seats, pins) as group:
            run = PartyRun(group, message)
            run.give_up(error)
            group.end(run.tag)

    def _client_timeout(self, session: Session) -> AbstractContextManager[object]:
        """Limit the stream timeout to that of the client."""
        circle = session.delegation
        if circle is None:
            return nullcontext()
        self.join(circle)
        return override(stream_timeout=min(current().stream_timeout, circle.timeout))

    @contextmanager
    def _group(
        self, session: Session, message: RunMessage, seats: int, pins: Mapping[ObjectId, str] | None = None
    ) -> Iterator[Group]:
        """Lock the group of a run: its connections serve one run at a time."""
        count = len(message.parties)
        members = (*message.parties, *((message.provider,) if seats > count else ()))
        circle = session.delegation
        order = run_order(session)
        key = (order, members, message.provider, tuple((pins or {}).items()))
        while True:
            with self._lock:
                group = self._groups.get(key)
                if group is None:
                    mine = None if pins is None else pins[self.worker.id]
                    here = functools.partial(self.provider.serve, PeerIdentity(self.worker.id, circle, mine))
                    client_id = session.client_id if circle is None else (circle.name, *order[1:])
                    group = Group(self.pending, client_id, members, count, message.provider, here, circle, pins)
                    self._groups[key] = group
                    self._make_room(order)
            with group.lock:
                if not group.is_closed:  # another thread may have closed it meanwhile
                    yield group
                    return

    def join(self, circle: Delegation) -> None:
        """Close the groups of a delegation when it ends."""
        with self._lock:
            if circle in self._circles:
                return
            self._circles.add(circle)
        circle.at_end(lambda: self._leave_circle(circle))

    def _leave_circle(self, circle: Delegation) -> None:
        with self._lock:
            left = [
                self._groups.pop(key) for key in list(self._groups) if type(key[0]) is tuple and key[0][0] is circle
            ]
        for group in left:
            group.close()
        self.pending.leave(circle)
        self.notes.forget(circle)

    def leave(self, session: Session) -> None:
        """Close the groups of a session that has ended, and abort their runs."""
        order = run_order(session)
        with self._lock:
            left = [self._groups.pop(key) for key in list(self._groups) if key[0] == order]
        for group in left:
            group.close()

    def close(self) -> None:
        """Close all groups."""
        with self._lock:
            while self._groups:
                self._groups.popitem()[1].close()
        self.pending.close()

    def _make_room(self, order: object) -> None:
        """Close the oldest groups of a client, except those with a run."""
        for key in [key for key in self._groups if key[0] == order][:-MAX_GROUPS]:
            group = self._groups[key]
            if group.lock.acquire(blocking=False):
                try:
                    self._groups.pop(key).close()
                finally:
                    group.lock.release()


def _proven(worker: BaseWorker, peer: PeerIdentity, purpose: str, sock: socket.socket) -> PeerIdentity:
    """Return a peer with the key that it proved, if its purpose needs one. Processes of one program have no keys."""
    registry = getattr(worker, "delegations", None)
    if purpose.partition(":")[0] not in _PINNED or registry is None or peer.delegation is None:
        return peer
    return peer._replace(key=registry.prover.listen(sock, peer.id, purpose))


def _accept_party(worker: PartyWorker, peer: PeerIdentity, purpose: str, sock: socket.socket) -> None:
    """Accept the connection of another party of a group."""
    peer = _proven(worker, peer, purpose, sock)
    kind, _, group = purpose.partition(":")
    if kind in _PINNED and peer.key is None:
        sock.close()  # the closed socket is stored, so that a waiting party fails at once
    if peer.delegation is not None:
        worker.mpc_runtime.join(peer.delegation)
    worker.mpc_runtime.pending.arrive(peer.delegation, peer.id, group, sock, peer.key)


def _accept_dealing(worker: PartyWorker, peer: PeerIdentity, purpose: str, sock: socket.socket) -> None:
    """Deal to a party, as long as its connection lasts."""
    peer = _proven(worker, peer, purpose, sock)
    if purpose.partition(":")[0] in _PINNED and peer.key is None:
        sock.close()
        return
    worker.mpc_runtime.provider.serve(peer, sock)


def _accept_probe(worker: PartyWorker, peer: PeerIdentity, purpose: str, sock: socket.socket) -> None:
    """Show that this worker can be reached."""
    _proven(worker, peer, purpose, sock)
    sock.close()


def _cost(worker: PartyWorker, session: Session) -> tuple[int, int, int, int]:
    """Return the cost of all runs at a worker: runs, rounds, bytes sent to other parties, bytes dealt."""
    cost = worker.mpc_runtime.cost
    return (cost.runs, cost.rounds, cost.bytes, cost.dealt)


def _begin_notes(worker: PartyWorker, session: Session) -> None:
    """Record the cost of each run of a client from now on."""
    if session.delegation is not None:
        worker.mpc_runtime.join(session.delegation)
    worker.mpc_runtime.notes.begin(session.delegation or session.client_id)


def _read_notes(worker: PartyWorker, session: Session, stop: bool) -> tuple[Any, ...]:
    """Return the id, seconds, rounds, bytes sent and bytes dealt of each run of a client since its last call."""
    return tuple(worker.mpc_runtime.notes.read(session.delegation or session.client_id, bool(stop)))


def _prepare(worker: PartyWorker) -> None:
    freed_memory.keep_freed()
    worker.mpc_runtime = Runtime(worker)


PURPOSES.update(dict.fromkeys((MESH, PINNED_MESH), _accept_party))
PURPOSES.update(dict.fromkeys((PROBE, PINNED_PROBE), _accept_probe))
PURPOSES.update(dict.fromkeys((wire_protocol.PURPOSE, wire_protocol.PINNED_PURPOSE), _accept_dealing))
WORKER_COMMANDS.update({COST: _cost, cost_meter.BEGIN: _begin_notes, cost_meter.READ: _read_notes})
SERVED.append(_prepare)
