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
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from syft.config import current, override
from syft.exceptions import ProtocolError
from syft.mpc.dealer import wire_protocol
from syft.mpc.links import party_link
from syft.mpc.runtime import cost_meter, freed_memory
from syft.mpc.runtime.dealer_service import Provider
from syft.mpc.runtime.group import MESH, PINNED_MESH, PINNED_PROBE, PROBE, Group, PendingParties
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.party_run import ATTEMPTS, PartyRun
from syft.mpc.runtime.rendezvous import Finish, Prepare, Start
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


# Groups of one client that are open at a time.
MAX_GROUPS = 256
# Purposes of connections on which both ends prove their keys first.
_PINNED = frozenset({PINNED_MESH, PINNED_PROBE, wire_protocol.PINNED_PURPOSE})


def run_order(session: Session) -> Any:
    """Return the key of the clients whose runs are ordered: all participants receive them in the same order.

    A worker that acts for a client, and an invited client of a served model, are ordered apart from the client itself.
    """
    return session.client_id if session.delegation is None else (session.delegation, session.via)


class Runtime:
    """The connections, the dealer and the cost counters of a worker in a process of its own."""

    def __init__(self, worker: BaseWorker) -> None:
        self.worker = worker
        self.provider = Provider()
        self.notes = cost_meter.CostNotes()
        self._groups: dict[Any, Group] = {}
        self.pending = PendingParties(worker)
        self._delegations: weakref.WeakSet[Delegation] = weakref.WeakSet()
        self._lock = threading.Lock()

    def run(
        self,
        session: Session,
        message: RunMessage,
        index: int,
        seats: int,
        prepare: Prepare,
        finish: Finish,
        pins: Mapping[ObjectId, str] | None = None,
    ) -> None:
        """Take part in a run until its end; if this party can't, the others are notified."""
        with self._client_timeout(session), self._group(session, message, seats, pins) as group:
            run = PartyRun(group, message)
            if run.tag[: party_link.ID_BYTES] in group.over:
                raise ProtocolError(f"Run {message.run_id!r} is over. Another run needs another id.")
            # A helper can't see that the others start again, so a run with a helper has one attempt.
            attempts = ATTEMPTS if group.helper is None else 1
            started = time.perf_counter()
            start: Start | None = None
            for attempt in range(attempts):
                if attempt:
                    run = PartyRun(group, message, attempt)
                try:
                    start = start or prepare()[0]
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
                    seconds = time.perf_counter() - started
                    cost = cost_meter.RunCost(seconds, run.rounds, run.sent, run.deals.bytes, 1)
                    self.notes.add(session.delegation or session.client_id, message.run_id, cost)

    def _client_timeout(self, session: Session) -> AbstractContextManager[object]:
        """Limit the stream timeout to that of the client."""
        delegation = session.delegation
        if delegation is None:
            return nullcontext()
        self.join(delegation)
        return override(stream_timeout=min(current().stream_timeout, delegation.timeout))

    @contextmanager
    def _group(
        self, session: Session, message: RunMessage, seats: int, pins: Mapping[ObjectId, str] | None = None
    ) -> Iterator[Group]:
        """Lock the group of a run: its connections serve one run at a time."""
        count = len(message.parties)
        members = (*message.parties, *((message.provider,) if seats > count else ()))
        delegation = session.delegation
        order = run_order(session)
        key = (order, members, message.provider, tuple((pins or {}).items()))
        while True:
            with self._lock:
                group = self._groups.get(key)
                if group is None:
                    mine = None if pins is None else pins[self.worker.id]
                    here = functools.partial(self.provider.serve, PeerIdentity(self.worker.id, delegation, mine))
                    client_id = session.client_id if delegation is None else (delegation.name, *order[1:])
                    group = Group(self.pending, client_id, members, count, message.provider, here, delegation, pins)
                    self._groups[key] = group
                    self._make_room(order)
            with group.lock:
                if not group.is_closed:  # another thread may have closed it meanwhile
                    yield group
                    return

    def join(self, delegation: Delegation) -> None:
        """Close the groups of a delegation when it ends."""
        with self._lock:
            if delegation in self._delegations:
                return
            self._delegations.add(delegation)
        delegation.at_end(lambda: self._leave_delegation(delegation))

    def _close_groups(self, is_left: Callable[[Any], bool]) -> None:
        """Close the groups of some clients, given by their order."""
        with self._lock:
            left = [self._groups.pop(key) for key in list(self._groups) if is_left(key[0])]
        for group in left:
            group.close()

    def _leave_delegation(self, delegation: Delegation) -> None:
        self._close_groups(lambda order: type(order) is tuple and order[0] is delegation)
        self.pending.close(lambda other: other is delegation)
        self.notes.forget(delegation)

    def leave(self, session: Session) -> None:
        """Close the groups of a session that has ended, and abort their runs."""
        mine = run_order(session)
        self._close_groups(lambda order: order == mine)

    def close(self) -> None:
        """Close all groups."""
        self._close_groups(lambda order: True)
        self.pending.close(lambda delegation: True)

    def _make_room(self, order: object) -> None:
        """Close the oldest groups of a client, except those with a run."""
        for key in [key for key in self._groups if key[0] == order][:-MAX_GROUPS]:
            group = self._groups[key]
            if group.lock.acquire(blocking=False):
                try:
                    self._groups.pop(key).close()
                finally:
                    group.lock.release()


def _accept(worker: PartyWorker, peer: PeerIdentity, purpose: str, sock: socket.socket) -> None:
    """Accept a connection of another party: for a group, to the dealer, or to check that this worker can be reached."""
    kind, _, group = purpose.partition(":")
    registry = getattr(worker, "delegations", None)
    if (
        kind in _PINNED and registry is not None and peer.delegation is not None
    ):  # processes of one program have no keys
        peer = peer._replace(key=registry.prover.listen(sock, peer.id, purpose))
    if kind in (PROBE, PINNED_PROBE) or (kind in _PINNED and peer.key is None):
        sock.close()
    if kind in (MESH, PINNED_MESH):  # a closed socket is stored too, so that a waiting party fails at once
        if peer.delegation is not None:
            worker.mpc_runtime.join(peer.delegation)
        worker.mpc_runtime.pending.arrive(peer.delegation, peer.id, group, sock, peer.key)
    elif sock.fileno() >= 0:
        worker.mpc_runtime.provider.serve(peer, sock)


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


PURPOSES.update(dict.fromkeys((MESH, PROBE, wire_protocol.PURPOSE, *_PINNED), _accept))
WORKER_COMMANDS.update({cost_meter.BEGIN: _begin_notes, cost_meter.READ: _read_notes})
SERVED.append(_prepare)
