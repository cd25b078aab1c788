"""Group: the connections of one party to the other parties of a client's runs, and to the dealer."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from syft.config import current
from syft.core.byte_budget import ByteBudget
from syft.core.id_provider import ObjectId
from syft.exceptions import PartyLostError, PinnedPartyError, ProtocolError, WorkerLostError
from syft.mpc.dealer import wire_protocol
from syft.mpc.dealer.wire_protocol import DealerLink
from syft.mpc.links import party_link
from syft.mpc.links.party_link import PartyLink

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker
    from syft.workers.delegation.grants import Delegation

# Purposes of connections: for the frames of a group, and to check that a worker can be reached.
MESH, PROBE = "mpc", "mpc-knock"
# The same, where both ends prove their keys before anything else is sent.
PINNED_MESH, PINNED_PROBE = "mpc-pinned", "mpc-knock-pinned"
# Seconds between checks that a party that is to connect can be reached.
_PROBE_INTERVAL = 1.0
# Limits the connections of one client that wait for their groups.
MAX_ARRIVED = 1024
# Seconds until a worker that can't be reached is looked up again: it may have been replaced.
_RETRY_DELAY = 0.2


class Arrival(NamedTuple):
    """A connection to another party.

    Attributes:
        sock: the socket.
        key: the fingerprint of the key that the other party proved on it; None if it proved none.
    """

    sock: socket.socket
    key: str | None = None


def budget_of(delegation: Delegation | None) -> ByteBudget | None:
    """Return the byte budget of the client of a delegation; None: there is none."""
    return None if delegation is None else delegation.session.byte_budget


class PendingParties:
    """Connections that other parties opened and that wait for their group, and calls to other parties."""

    def __init__(self, worker: BaseWorker) -> None:
        self.worker = worker
        self._arrived: dict[tuple[Delegation | None, str, ObjectId], Arrival] = {}
        self._news = threading.Condition()

    def call(
        self, delegation: Delegation | None, peer: ObjectId, purpose: str, advice: str = "", proves: bool = False
    ) -> Arrival:
        """Connect to another worker; retries once if its process was replaced meanwhile. Only nodes prove keys."""
        tried = None
        others: Mapping[ObjectId, Any] = self.worker._known_workers if delegation is None else delegation.peers
        while (known := others.get(peer)) is not tried:
            connect = getattr(known, "connect_proven" if proves else "connect", None)
            if connect is None:
                break
            try:
                return Arrival(*connect(purpose)) if proves else Arrival(connect(purpose))
            except WorkerLostError:
                tried = known
                if delegation is None:
                    time.sleep(_RETRY_DELAY)
        if tried is not None:
            what = "its process" if delegation is None else "it"
            raise PartyLostError(peer, f"{what} can't be reached from {self.worker.id!r}", advice)
        raise ProtocolError(f"Worker {self.worker.id!r} has no address of party {peer!r}.")

    def arrive(
        self, delegation: Delegation | None, peer: ObjectId, group: str, sock: socket.socket, key: str | None = None
    ) -> None:
        """Store a connection that another party opened; it replaces an earlier one for the same group."""
        with self._news:
            earlier = self._arrived.pop((delegation, group, peer), None)
            if earlier is not None:
                earlier.sock.close()
            self._arrived[delegation, group, peer] = Arrival(sock, key)
            mine = [name for name in self._arrived if name[0] is delegation]
            for name in mine[:-MAX_ARRIVED]:
                self._arrived.pop(name).sock.close()
            self._news.notify_all()

    def close(self, is_over: Callable[[Delegation | None], bool]) -> None:
        """Close the waiting connections of some delegations."""
        with self._news:
            for key in [key for key in self._arrived if is_over(key[0])]:
                self._arrived.pop(key).sock.close()

    def arrived(
        self, delegation: Delegation | None, group: str, peer: ObjectId, timeout: float = 0.0
    ) -> Arrival | None:
        """Return the connection that another party opened; None if it has not."""
        with self._news:
            if timeout:
                self._news.wait_for(lambda: (delegation, group, peer) in self._arrived, timeout)
            return self._arrived.pop((delegation, group, peer), None)


class Group:
    """The parties of a client's runs, as one of them sees them: connections to the others and to the dealer.

    Args:
        pending: the connections that other parties opened.
        client_id: identifies the client, the same at all participants.
        members: the ids of all participants, in order: the parties that hold shares, then a helper.
        count: the number of parties that hold shares.
        provider: the id of the dealer.
        deal_here: serves a connection as the dealer, for a party that deals to itself.
        delegation: the client's delegation; None: among processes of one program.
        pins: the key fingerprints that members and dealer must prove, by id; empty: they are identified by id, as
            introduced. Groups with different pins share no connection.
    """

    def __init__(
        self,
        pending: PendingParties,
        client_id: object,
        members: tuple[ObjectId, ...],
        count: int,
        provider: ObjectId | None,
        deal_here: Callable[[socket.socket], None],
        delegation: Delegation | None = None,
        pins: Mapping[ObjectId, str] | None = None,
    ) -> None:
        self.pending = pending
        self.delegation = delegation
        self.client_id = client_id
        self.members = members
        self.count = count
        self.provider = provider
        self.helper = members[count] if len(members) > count else None
        # The ids that an abort frame can name by index: the dealer is no member, unless it helps.
        self.known = members if provider is None or provider in members else (*members, provider)
        self.index = members.index(pending.worker.id)
        self.lock = threading.Lock()
        self.pins = dict(pins or {})
        keys = tuple([self.pins[id] for id in self.known]) if self.pins else ()
        parts = (client_id, members, provider, *keys)
        self.name = hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
        self.over: dict[bytes, None] = {}
        self.is_closed = False
        self._deal_here = deal_here
        self._links: dict[int, PartyLink] = {}
        self._dealer: DealerLink | None = None

    def link(self, index: int, timeout: float) -> PartyLink:
        """Return the connection to another member; the member with the higher index opens it."""
        peer = self.members[index]
        arrived = self.pending.arrived(self.delegation, self.name, peer)
        link = self._links.get(index)
        if arrived is None and link is not None and link.is_open():
            return link
        if link is not None:
            link.close()
        if arrived is None:
            purpose = f"{PINNED_MESH if self.pins else MESH}:{self.name}"
            arrived = self._call(peer, purpose) if index < self.index else self._wait_for(peer, timeout)
        sock = self._check_key(peer, arrived)
        limit = current().max_message_bytes
        budget = budget_of(self.delegation)
        link = self._links[index] = PartyLink(sock, peer, limit, self.over, self.known, self._note, budget)
        return link

    def connect_pinned(self, timeout: float) -> None:
        """Connect to all pinned members and the dealer, before anything is computed; they prove their keys."""
        if not self.pins:
            return
        for index in range(len(self.members)):
            if index != self.index:
                self.link(index, timeout)
        if self.provider is not None:
            self.dealer()

    def _call(self, peer: ObjectId, purpose: str, advice: str = "") -> Arrival:
        return self.pending.call(self.delegation, peer, purpose, advice, proves=bool(self.pins))

    def _check_key(self, peer: ObjectId, arrived: Arrival) -> socket.socket:
        """Return the socket of a connection if its other end proved the pinned key."""
        if self.pins and arrived.key != self.pins[peer]:
            arrived.sock.close()
            raise PinnedPartyError(peer, self.pins[peer])
        return arrived.sock

    def _note(self, key: bytes, instance: int, generation: int) -> None:
        """Catch up with another party that used more deals."""
        if self._dealer is not None:
            self._dealer.catch_up(key, instance, generation)

    def _wait_for(self, peer: ObjectId, timeout: float) -> Arrival:
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            # A party that is lost, or has another key, is detected at once.
            self._check_key(peer, self._call(peer, PINNED_PROBE if self.pins else PROBE)).close()
            arrived = self.pending.arrived(self.delegation, self.name, peer, _PROBE_INTERVAL)
            if arrived is not None:
                return arrived
        raise PartyLostError(peer, f"it did not join within {timeout:g} s", party_link.STILL_THERE)

    def dealer(self) -> DealerLink:
        """Return the connection to the dealer, after the abort frames of others were read."""
        for link in self._links.values():
            link.drop_old()
        if self._dealer is not None and self._dealer.is_open():
            self._dealer.set_timeout(current().stream_timeout)
            return self._dealer
        if self.provider is None:
            raise ProtocolError("This run needs a crypto provider, and its message names none.")
        if self._dealer is not None:
            self._dealer.close()
            self._dealer = None
        sock = self._call_dealer(self.provider)
        parties = self.members[: self.count]
        keys = tuple([self.pins[party] for party in parties]) if self.pins else ()
        last, budget = self.index == self.count - 1, budget_of(self.delegation)
        self._dealer = DealerLink(sock, self.provider, self.name, parties, last, keys, budget)
        return self._dealer

    def _call_dealer(self, provider: ObjectId) -> socket.socket:
        """Connect to the dealer; a party that is also the dealer (`insecure`) deals to itself in a thread."""
        if provider != self.pending.worker.id:
            purpose = wire_protocol.PINNED_PURPOSE if self.pins else wire_protocol.PURPOSE
            return self._check_key(provider, self._call(provider, purpose, party_link.STILL_THERE))
        ours, theirs = socket.socketpair()
        threading.Thread(target=self._deal_here, args=(theirs,), name="syft dealer", daemon=True).start()
        return ours

    def close(self) -> None:
        """Close all connections of the group, for good."""
        self.is_closed = True
        for link in self._links.values():
            link.close()
        self._links.clear()
        if self._dealer is not None:
            self._dealer.close()
            self._dealer = None

    def end(self, run: bytes) -> None:
        """Mark a run as over: later frames of it are dropped."""
        self.over.update({run: None, run[: party_link.ID_BYTES]: None})
        while len(self.over) > party_link.MAX_OVER:
            del self.over[next(iter(self.over))]
        for link in self._links.values():
            link.forget(run)
