"""Group: those who take part in a client's runs, as one of them sees them, and how they find each other."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from syft.config import current
from syft.core.byte_budget import ByteBudget
from syft.exceptions import PartyLostError, PinnedPartyError, ProtocolError, WorkerLostError
from syft.mpc.dealer import wire_protocol
from syft.mpc.dealer.wire_protocol import DealerLink
from syft.mpc.links import party_link
from syft.mpc.links.party_link import PartyLink

# Purposes of connections: one that a group's frames go over, and one that only asks whether somebody is there.
MESH, KNOCK = "mpc", "mpc-knock"
# The same, where both ends prove their keys before anything else is sent.
PINNED_MESH, PINNED_KNOCK = "mpc-pinned", "mpc-knock-pinned"
# How often one who waits to be called looks whether the other is there at all, in seconds.
_LOOK = 1.0
# How many connections of one client wait for their groups.
MAX_ARRIVED = 1024
# How long after one that can't be reached it is looked whether it was replaced, in seconds.
_LATE = 0.2


class Arrival(NamedTuple):
    """A connection to another party.

    Attributes:
        sock: the socket.
        key: the fingerprint of the key that the other party proved to hold on it; None if it proved none.
    """

    sock: socket.socket
    key: str | None = None


def budget_of(circle: Any) -> ByteBudget | None:
    """Return the byte budget of the client for which a worker is visited; None: there is none."""
    return None if circle is None else circle.session.byte_budget


class PendingParties:
    """Where connections that other parties opened wait until their group asks for them.

    Args:
        worker: the worker.
    """

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self._arrived: dict[tuple[Any, str, Any], Arrival] = {}
        self._news = threading.Condition()

    def call(self, circle: Any, peer: Any, purpose: str, advice: str = "", proves: bool = False) -> Arrival:
        """Connect to another worker; the news that it has another process now may be a little late.

        Args:
            circle: that of the client for which it is; None: among processes of one program, who know each other.
            peer: the other worker.
            purpose: what for.
            advice: what it means if it is lost.
            proves: whether both ends prove their keys first; only nodes can.
        """
        tried = None
        others = self.worker._known_workers if circle is None else circle.peers
        while (known := others.get(peer)) is not tried:
            if not hasattr(known, "connect_proven" if proves else "connect"):
                break
            try:
                return Arrival(*known.connect_proven(purpose)) if proves else Arrival(known.connect(purpose))
            except WorkerLostError:
                tried = known
                if circle is None:
                    time.sleep(_LATE)
        if tried is not None:
            what = "its process" if circle is None else "it"
            raise PartyLostError(peer, f"{what} can't be reached from {self.worker.id!r}", advice)
        raise ProtocolError(f"Worker {self.worker.id!r} does not know how to reach party {peer!r}.")

    def arrive(self, circle: Any, peer: Any, group: str, sock: socket.socket, key: str | None = None) -> None:
        """Keep a connection that another party opened; of one client the latest counts."""
        with self._news:
            earlier = self._arrived.pop((circle, group, peer), None)
            if earlier is not None:
                earlier.sock.close()
            self._arrived[circle, group, peer] = Arrival(sock, key)
            mine = [name for name in self._arrived if name[0] is circle]
            for name in mine[:-MAX_ARRIVED]:
                self._arrived.pop(name).sock.close()
            self._news.notify_all()

    def leave(self, circle: Any) -> None:
        """Close what was opened for a client that does not come again."""
        with self._news:
            for key in [key for key in self._arrived if key[0] is circle]:
                self._arrived.pop(key).sock.close()

    def close(self) -> None:
        """Close what nobody asked for."""
        with self._news:
            while self._arrived:
                self._arrived.popitem()[1].sock.close()

    def arrived(self, circle: Any, group: str, peer: Any, timeout: float = 0.0) -> Arrival | None:
        """Return the connection that another party opened, if it has."""
        with self._news:
            if timeout:
                self._news.wait_for(lambda: (circle, group, peer) in self._arrived, timeout)
            return self._arrived.pop((circle, group, peer), None)


class Group:
    """A client's parties as one of them sees them: connections to the others and to the dealer.

    Args:
        lobby: where connections of others arrive.
        client_id: what stands for the client, the same for all who take part.
        members: the ids of all who take part, in order: those who hold shares, then a helper.
        count: how many hold shares.
        provider: the id of the dealer.
        deal_here: serves a connection as the dealer, for one who deals to itself.
        circle: how the others are reached for the client; None: as processes of one program.
        pins: the fingerprints of the keys that members and dealer have to prove, by id; empty: they are known by id,
            as whoever introduced them said. A group with pins shares no connection with one without, or with others.
    """

    def __init__(
        self,
        lobby: PendingParties,
        client_id: Any,
        members: tuple[Any, ...],
        count: int,
        provider: Any,
        deal_here: Callable[[socket.socket], None],
        circle: Any = None,
        pins: Mapping[Any, str] | None = None,
    ) -> None:
        self.lobby = lobby
        self.circle = circle
        self.client_id = client_id
        self.members = members
        self.count = count
        self.provider = provider
        self.helper = members[count] if len(members) > count else None
        # Whom one who gives up may have lost, by number: the dealer is no member, unless it helps.
        self.known = members if provider is None or provider in members else (*members, provider)
        self.index = members.index(lobby.worker.id)
        self.lock = threading.Lock()
        self.pins = dict(pins or {})
        keys = tuple([self.pins[id] for id in self.known]) if self.pins else ()
        said = (client_id, members, provider, *keys)
        self.name = hashlib.blake2b(repr(said).encode(), digest_size=16).hexdigest()
        self.over: dict[bytes, None] = {}
        self.is_closed = False
        self._deal_here = deal_here
        self._links: dict[int, PartyLink] = {}
        self._dealer: DealerLink | None = None

    def link(self, index: int, timeout: float) -> PartyLink:
        """Return the connection to another member: who comes later in the order calls."""
        peer = self.members[index]
        arrived = self.lobby.arrived(self.circle, self.name, peer)
        link = self._links.get(index)
        if arrived is None and link is not None and link.is_open():
            return link
        if link is not None:
            link.close()
        if arrived is None:
            purpose = f"{PINNED_MESH if self.pins else MESH}:{self.name}"
            arrived = self._call(peer, purpose) if index < self.index else self._await(peer, timeout)
        sock = self._checked(peer, arrived)
        limit = current().max_message_bytes
        budget = budget_of(self.circle)
        link = self._links[index] = PartyLink(sock, peer, limit, self.over, self.known, self._note, budget)
        return link

    def meet(self, timeout: float) -> None:
        """Connect to everybody who is pinned, before anything is computed.

        Raises:
            PinnedPartyError: a party, or the dealer, did not prove the key that was pinned.
        """
        if not self.pins:
            return
        for index in range(len(self.members)):
            if index != self.index:
                self.link(index, timeout)
        if self.provider is not None:
            self.dealer()

    def _call(self, peer: Any, purpose: str, advice: str = "") -> Arrival:
        return self.lobby.call(self.circle, peer, purpose, advice, proves=bool(self.pins))

    def _checked(self, peer: Any, arrived: Arrival) -> socket.socket:
        """Return the socket of a connection whose other end is the one that is pinned."""
        if self.pins and arrived.key != self.pins[peer]:
            arrived.sock.close()
            raise PinnedPartyError(peer, self.pins[peer])
        return arrived.sock

    def _note(self, key: bytes, instance: int, generation: int) -> None:
        """Take note of how far another party is with the dealer."""
        if self._dealer is not None:
            self._dealer.catch_up(key, instance, generation)

    def _await(self, peer: Any, timeout: float) -> Arrival:
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            # One that is gone, or is not the one that is pinned, is found out at once.
            self._checked(peer, self._call(peer, PINNED_KNOCK if self.pins else KNOCK)).close()
            arrived = self.lobby.arrived(self.circle, self.name, peer, _LOOK)
            if arrived is not None:
                return arrived
        raise PartyLostError(peer, f"it did not join within {timeout:g} s", party_link.STILL_THERE)

    def dealer(self) -> DealerLink:
        """Return the connection to the dealer, after what others said of it when they gave up."""
        for link in self._links.values():
            link.sweep()
        if self._dealer is not None and self._dealer.is_open():
            self._dealer.wait_for(current().stream_timeout)
            return self._dealer
        if self.provider is None:
            raise ProtocolError("This run needs a crypto provider, and none was named.")
        if self._dealer is not None:
            self._dealer.close()
            self._dealer = None
        sock = self._call_dealer()
        parties = self.members[: self.count]
        keys = tuple([self.pins[party] for party in parties]) if self.pins else ()
        last, budget = self.index == self.count - 1, budget_of(self.circle)
        self._dealer = DealerLink(sock, self.provider, self.name, parties, last, keys, budget)
        return self._dealer

    def _call_dealer(self) -> socket.socket:
        """Connect to the dealer; one that is a party as well (`insecure`) deals to itself in a thread."""
        if self.provider != self.lobby.worker.id:
            purpose = wire_protocol.PINNED_PURPOSE if self.pins else wire_protocol.PURPOSE
            return self._checked(self.provider, self._call(self.provider, purpose, party_link.STILL_THERE))
        ours, theirs = socket.socketpair()
        threading.Thread(target=self._deal_here, args=(theirs,), name="syft dealer", daemon=True).start()
        return ours

    def close(self) -> None:
        """Leave the group, for good."""
        self.is_closed = True
        for link in self._links.values():
            link.close()
        self._links.clear()
        if self._dealer is not None:
            self._dealer.close()
            self._dealer = None

    def end(self, run: bytes) -> None:
        """Note that a run is over: what still arrives of it is dropped."""
        self.over.update({run: None, run[: party_link.ID_BYTES]: None})
        while len(self.over) > party_link.MAX_OVER:
            del self.over[next(iter(self.over))]
        for link in self._links.values():
            link.forget(run)
