"""PendingConnections: a bounded number of connections whose clients are not authenticated yet.

A connection counts from the moment it is accepted, before TLS, until its WebSocket or peer is authenticated. HTTP
requests are short, so their connections count until they are closed. When the limit is reached, a silent connection
is closed: the oldest one of the address that has most.
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading
import time
from collections import Counter
from typing import Any

from syft.grid.identity.throttle import network_of

MOST, EACH = 256, 64
# Seconds after which a request that is still being answered may be closed for another client.
_ANSWERED = 30.0
# Length of the system's queue of connections, and connections accepted before others are closed.
BACKLOG, BATCH = 256, 64


@dataclasses.dataclass(slots=True)
class _Entry:
    """A connection: its socket, its origin, its time, and whether a complete request is being answered."""

    sock: socket.socket
    origin: str
    since: float
    is_busy: bool = False


class PendingConnections:
    """Counts connections before authentication.

    Args:
        most: connections at once.
        each: connections of one address at once; of an IPv6 network of 64 bits.
    """

    def __init__(self, most: int = MOST, each: int = EACH) -> None:
        self.most = most
        self.each = each
        self._entries: dict[Any, _Entry] = {}
        self._origins: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def enter(self, address: object, sock: socket.socket) -> bool:
        """Add a connection, closing another one if needed; returns whether there was room."""
        origin = network_of(str(address[0]) if isinstance(address, tuple) and address else "")
        with self._lock:
            victim = None
            if self._origins[origin] >= self.each:
                victim = self._victim(origin)
            elif len(self._entries) >= self.most:
                victim = self._victim()
            else:
                return self._add(address, sock, origin)
            if victim is None:
                return False
            gone = self._remove(victim)
            added = self._add(address, sock, origin)
        if gone is not None:
            with contextlib.suppress(OSError):
                gone.sock.shutdown(socket.SHUT_RDWR)  # its transport notices, and closes it
        return added

    def leave(self, address: object, sock: socket.socket | None = None) -> None:
        """Stop counting a connection: its client is authenticated, or it is closed."""
        with self._lock:
            entry = self._entries.get(address)
            if entry is not None and (sock is None or entry.sock is sock):
                self._remove(address)

    def mark(self, address: object, is_busy: bool) -> None:
        """Set whether a complete request of a connection is being answered: until then it may be closed for another."""
        with self._lock:
            entry = self._entries.get(address)
            if entry is not None:
                entry.is_busy = is_busy
                entry.since = time.monotonic()

    def _add(self, address: object, sock: socket.socket, origin: str) -> bool:
        self._entries[address] = _Entry(sock, origin, time.monotonic())
        self._origins[origin] += 1
        return True

    def _remove(self, address: object) -> _Entry | None:
        entry = self._entries.pop(address, None)
        if entry is not None:
            self._origins[entry.origin] -= 1
            if not self._origins[entry.origin]:
                del self._origins[entry.origin]
        return entry

    def _victim(self, origin: str | None = None) -> Any:
        """Return the address of the connection to close; None if all are being answered."""
        late = time.monotonic() - _ANSWERED
        found = [
            (entry.is_busy, -self._origins[entry.origin], number, address)
            for number, (address, entry) in enumerate(self._entries.items())
            if (origin is None or entry.origin == origin) and (not entry.is_busy or entry.since < late)
        ]
        return min(found)[-1] if found else None


class Accepted(socket.socket):
    """A connection that is no longer counted when it is closed."""

    room: PendingConnections | None = None
    address: Any = None

    def close(self) -> None:
        """Close it."""
        room, self.room = self.room, None
        if room is not None:
            room.leave(self.address, self)
        super().close()


class BoundedListener(socket.socket):
    """A listening socket whose connections are counted until their clients are authenticated."""

    room: PendingConnections | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection.

        Raises:
            ConnectionAbortedError: there is no room for it; it was closed.
        """
        plain, address = super().accept()
        sock = Accepted(self.family, self.type, self.proto, fileno=plain.detach())
        if self.room is not None:
            if not self.room.enter(address, sock):
                sock.close()
                raise ConnectionAbortedError("too many connections before authentication")
            sock.room, sock.address = self.room, address
        return sock, address

    def listen(self, backlog: int = BACKLOG) -> None:
        """Listen; the event loop passes the number of connections it accepts at once, which is smaller."""
        super().listen(max(backlog, BACKLOG))
