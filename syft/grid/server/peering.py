"""Peering: accepts other nodes at a node's port, each on behalf of a client that introduced it.

They request the switch from HTTP to bytes with the secret that the client obtained for them; without it they are
refused. From then on the connection is a socket: the accepted one, or, with TLS, one end of a pair whose other end
the event loop serves.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from syft.exceptions import AuthenticationError
from syft.grid.server.auth import DelegatedPrincipal
from syft.grid.server.sessions import MAX_HELLO, SessionRegistry
from syft.workers.delegation.dialer import PROTOCOL, STREAM, keep_alive
from syft.workers.delegation.grants import DelegationRegistry, PeerCredential
from syft.workers.transport import handshake
from syft.workers.transport.framing import FramedConnection
from syft.workers.transport.handshake import HANDSHAKE_SECONDS, TOKEN_BYTES
from syft.workers.transport.pipe import SocketPipe
from syft.workers.transport.socket_stream import PURPOSES, PeerIdentity

if TYPE_CHECKING:
    from syft.workers.execution.session import Session

logger = logging.getLogger("syft.node")
_SWITCH = f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n\r\n".encode()
_READ = 1 << 18
_BUFFER = 1 << 22
# Seconds that another node may pause in the middle of a frame.
_FRAME_SECONDS = 60.0

Headers = Iterable[tuple[bytes, bytes]]


class Peering:
    """Accepts other nodes."""

    def __init__(self, delegations: DelegationRegistry, sessions: SessionRegistry) -> None:
        self.delegations = delegations
        self._sessions = sessions

    def sweep(self) -> None:
        """End the delegations of clients whose tokens are no longer valid."""
        self.delegations.sweep(_may_stay)

    # --- in the event loop ------------------------------------------------------------------------------------

    def take(self, transport: asyncio.Transport, headers: Headers, early: bytes) -> None:
        """Take a connection over, or refuse it; called with the head of its request, before anything else is read."""
        try:
            credential = self._identify(dict(headers))
            if early:
                raise AuthenticationError("The client sent data before the response.")
            if not self.delegations.has_room(credential.delegation.user):
                raise AuthenticationError("Too many connections for this client.")
            sock = accept_socket(transport)
        except (AuthenticationError, OSError) as error:
            logger.info("Another node was refused: %s", error)
            refuse(transport, error)
            return
        name = f"syft peer {credential.peer}"
        threading.Thread(target=self.serve, args=(credential, sock), name=name, daemon=True).start()

    def _identify(self, headers: dict[bytes, bytes]) -> PeerCredential:
        return self.delegations.find(token_in(headers))

    # --- in a thread of the connection ------------------------------------------------------------------------

    def serve(self, credential: PeerCredential, sock: socket.socket) -> None:
        """Serve an accepted connection until it ends."""
        try:
            credential.delegation.hold(sock)
            purpose = _shake_hands(credential, sock)
        except (OSError, AuthenticationError) as error:
            logger.info("The connection of node %r ended: %s", credential.peer, error)
            sock.close()
            return
        if purpose == STREAM:
            self._serve_stream(credential, sock)
            return
        taker = PURPOSES.get(purpose.partition(":")[0])
        if taker is None:
            sock.close()
        else:
            taker(self.delegations.worker, PeerIdentity(credential.peer, credential.delegation), purpose, sock)

    def _serve_stream(self, credential: PeerCredential, sock: socket.socket) -> None:
        delegation = credential.delegation
        principal = DelegatedPrincipal(str(delegation.user), via=credential.peer, delegation=delegation)
        budget = delegation.session.byte_budget
        pipe = SocketPipe(sock, pause_timeout=_FRAME_SECONDS)
        self._sessions.serve(FramedConnection(pipe, MAX_HELLO, budget=budget, drops_refused=True), principal)


def token_in(headers: dict[bytes, bytes]) -> bytes:
    """Return the token in the request of another node."""
    if b"origin" in headers:
        raise AuthenticationError("Pages in browsers are not served here.")
    kind, _, text = headers.get(b"authorization", b"").partition(b" ")
    try:
        token = bytes.fromhex(text.decode("ascii")) if len(text) == 2 * TOKEN_BYTES else b""
    except ValueError:
        token = b""
    if kind.lower() != b"peer" or len(token) != TOKEN_BYTES:
        raise AuthenticationError("Nodes need the introduction of a client.")
    return token


def refuse(transport: asyncio.Transport, error: Exception) -> None:
    """Refuse a connection, with the reason if it is about authentication."""
    text = str(error).encode() if isinstance(error, AuthenticationError) else b""
    transport.write(
        b"HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nUpgrade: %s\r\nContent-Type: text/plain\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (PROTOCOL.encode(), len(text), text)
    )
    transport.close()


def _may_stay(session: Session) -> bool:
    try:
        session.check()
    except AuthenticationError:
        return False
    return True


def _shake_hands(credential: PeerCredential, sock: socket.socket) -> str:
    """Authenticate each other, and return the purpose of the connection."""
    sock.settimeout(HANDSHAKE_SECONDS)
    sock.sendall(_SWITCH)
    token, purpose = handshake.receive_hello(sock)
    if not hmac.compare_digest(handshake.fingerprint(token), credential.key) or not credential.is_good:
        raise AuthenticationError("it shows another secret than before")
    sock.sendall(credential.proof)
    handshake.ready(sock)
    return purpose


def accept_socket(transport: asyncio.Transport, at_end: Callable[[], None] = lambda: None) -> socket.socket:
    """Return a socket that carries the bytes of a transport from now on.

    `at_end` is called when this process no longer carries the bytes; at once without TLS.
    """
    if transport.get_extra_info("sslcontext") is None:
        transport.pause_reading()
        sock = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        transport.abort()  # closes its own handle and sends nothing
        keep_alive(sock)
        at_end()
        return sock
    keep_alive(transport.get_extra_info("socket"))
    ours, theirs = socket.socketpair()
    transport.set_protocol(TlsBridge(transport, theirs, at_end))
    return ours


class TlsBridge(asyncio.Protocol):
    """Carries bytes between a transport with TLS and one end of a pair of sockets."""

    def __init__(
        self, transport: asyncio.Transport, sock: socket.socket, at_end: Callable[[], None] = lambda: None
    ) -> None:
        self._transport = transport
        self._at_end = at_end
        self._loop = asyncio.get_running_loop()
        self._waiting = bytearray()
        self._sock = sock
        sock.setblocking(False)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
        self._loop.add_reader(sock, self._send)

    def _send(self) -> None:
        """Send the bytes that the node has written."""
        try:
            data = self._sock.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._transport.write(data)
        else:
            self._loop.remove_reader(self._sock)
            self._transport.close()

    def pause_writing(self) -> None:
        """Stop reading from the node until the peer has received what was sent."""
        self._loop.remove_reader(self._sock)

    def resume_writing(self) -> None:
        """Go on."""
        if self._sock.fileno() >= 0:
            self._loop.add_reader(self._sock, self._send)

    def data_received(self, data: bytes) -> None:
        """Pass received bytes on to the node; if it does not read them, stop receiving."""
        if not self._waiting:
            data = data[self._put(data) :]
            if not data:
                return
            self._transport.pause_reading()
            self._loop.add_writer(self._sock, self._put_rest)
        self._waiting += data

    def _put(self, data: bytes | bytearray) -> int:
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0
        except OSError:  # the node has closed its end
            self._transport.close()
            return len(data)

    def _put_rest(self) -> None:
        del self._waiting[: self._put(self._waiting)]
        if not self._waiting:
            self._loop.remove_writer(self._sock)
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the pair; bytes that arrived before can still be read from it."""
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        self._sock.close()
        self._at_end()
