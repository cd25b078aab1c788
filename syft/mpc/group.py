"""Group: those who take part in a client's runs, as one of them sees them, and how they find each other."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from syft.config import current
from syft.exceptions import PartyLostError, ProtocolError, WorkerLostError
from syft.mpc import dealing, mesh
from syft.mpc.dealing import DealerLink
from syft.mpc.mesh import Link

# Purposes of connections: one that a group's frames go over, and one that only asks whether somebody is there.
MESH, KNOCK = "mpc", "mpc-knock"
# How often one who waits to be called looks whether the other is there at all, in seconds.
_LOOK = 1.0
# How many connections of one client wait for their groups.
MAX_ARRIVED = 1024
# How long after one that can't be reached it is looked whether it was replaced, in seconds.
_LATE = 0.2


class Lobby:
    """Where connections that other parties opened wait until their group asks for them.

    Args:
        worker: the worker.
    """

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self._arrived: dict[tuple[Any, str, Any], socket.socket] = {}
        self._news = threading.Condition()

    def call(self, circle: Any, peer: Any, purpose: str, advice: str = "") -> socket.socket:
        """Connect to another worker; the news that it has another process now may be a little late.

        Args:
            circle: that of the client for which it is; None: among processes of one program, who know each other.
            peer: the other worker.
            purpose: what for.
            advice: what it means if it is lost.
        """
        tried = None
        others = self.worker._known_workers if circle is None else circle.peers
        while (known := others.get(peer)) is not tried:
            if not hasattr(known, "connect"):
                break
            try:
                sock: socket.socket = known.connect(purpose)
                return sock
            except WorkerLostError:
                tried = known
                if circle is None:
                    time.sleep(_LATE)
        if tried is not None:
            what = "its process" if circle is None else "it"
            raise PartyLostError(peer, f"{what} can't be reached from {self.worker.id!r}", advice)
        raise ProtocolError(f"Worker {self.worker.id!r} does not know how to reach party {peer!r}.")

    def arrive(self, circle: Any, peer: Any, group: str, sock: socket.socket) -> None:
        """Keep a connection that another party opened; of one client the latest counts."""
        with self._news:
            earlier = self._arrived.pop((circle, group, peer), None)
            if earlier is not None:
                earlier.close()
            self._arrived[circle, group, peer] = sock
            mine = [key for key in self._arrived if key[0] is circle]
            for key in mine[:-MAX_ARRIVED]:
                self._arrived.pop(key).close()
            self._news.notify_all()

    def leave(self, circle: Any) -> None:
        """Close what was opened for a client that does not come again."""
        with self._news:
            for key in [key for key in self._arrived if key[0] is circle]:
                self._arrived.pop(key).close()

    def close(self) -> None:
        """Close what nobody asked for."""
        with self._news:
            while self._arrived:
                self._arrived.popitem()[1].close()

    def arrived(self, circle: Any, group: str, peer: Any, timeout: float = 0.0) -> socket.socket | None:
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
    """

    def __init__(
        self,
        lobby: Lobby,
        client_id: Any,
        members: tuple[Any, ...],
        count: int,
        provider: Any,
        deal_here: Callable[[socket.socket], None],
        circle: Any = None,
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
        self.name = hashlib.blake2b(repr((client_id, members, provider)).encode(), digest_size=16).hexdigest()
        self.over: dict[bytes, None] = {}
        self.is_closed = False
        self._deal_here = deal_here
        self._links: dict[int, Link] = {}
        self._dealer: DealerLink | None = None

    def link(self, index: int, timeout: float) -> Link:
        """Return the connection to another member: who comes later in the order calls."""
        peer = self.members[index]
        arrived = self.lobby.arrived(self.circle, self.name, peer)
        link = self._links.get(index)
        if arrived is None and link is not None and link.is_open():
            return link
        if link is not None:
            link.close()
        if arrived is None:
            calls = index < self.index
            arrived = self.lobby.call(self.circle, peer, f"{MESH}:{self.name}") if calls else self._await(peer, timeout)
        limit = current().max_message_bytes
        link = self._links[index] = Link(arrived, peer, limit, self.over, self.known, self._note)
        return link

    def _note(self, key: bytes, instance: int, generation: int) -> None:
        """Take note of how far another party is with the dealer."""
        if self._dealer is not None:
            self._dealer.catch_up(key, instance, generation)

    def _await(self, peer: Any, timeout: float) -> socket.socket:
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            self.lobby.call(self.circle, peer, KNOCK).close()  # one that is gone is found out at once
            arrived = self.lobby.arrived(self.circle, self.name, peer, _LOOK)
            if arrived is not None:
                return arrived
        raise PartyLostError(peer, f"it did not join within {timeout:g} s", mesh.STILL_THERE)

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
        self._dealer = DealerLink(sock, self.provider, self.name, parties, self.index == self.count - 1)
        return self._dealer

    def _call_dealer(self) -> socket.socket:
        """Connect to the dealer; one that is a party as well (`insecure`) deals to itself in a thread."""
        if self.provider != self.lobby.worker.id:
            return self.lobby.call(self.circle, self.provider, dealing.PURPOSE, mesh.STILL_THERE)
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
        self.over.update({run: None, run[: mesh.ID_BYTES]: None})
        while len(self.over) > mesh.MAX_OVER:
            del self.over[next(iter(self.over))]
        for link in self._links.values():
            link.forget(run)
