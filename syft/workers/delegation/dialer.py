"""Connections of a worker behind a server to another one, for one client.

It requests a switch from HTTP to raw bytes, with the token in the header, before anything else is read. Then both
authenticate each other, as processes of one machine do (`handshake`). The result is a plain socket, or one with TLS,
without an intermediary.
"""

from __future__ import annotations

import contextlib
import hmac
import re
import socket
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from syft.core.id_provider import ObjectId
from syft.exceptions import AuthenticationError
from syft.workers.delegation.node_names import check_peer
from syft.workers.transport import handshake
from syft.workers.transport.handshake import TOKEN_BYTES
from syft.workers.transport.pipe import SocketPipe
from syft.workers.transport.websocket import Endpoint, client_pipe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syft.workers.transport.pipe import Bytes

PATH, PROTOCOL = "/peer", "syft-peer"
# The purpose of a connection that carries a stream.
STREAM = "stream"
_MAX_HEAD = 1 << 12
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
# Nodes name the protocol in every response, also in refusals: other servers do not.
_OURS = re.compile(rb"\r\nUpgrade: %b\r\n" % PROTOCOL.encode(), re.IGNORECASE)
# TCP keep-alive detects a machine that was switched off: seconds until the first probe, between probes; their number.
_ALIVE = (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4))


class TlsSocket(ssl.SSLSocket):
    """A socket with TLS and the interface that parties of a protocol expect of a plain one; not thread-safe."""

    def sendmsg(self, buffers: Sequence[Bytes], *args: object) -> int:  # type: ignore[override]
        """Send as many bytes of the first pieces as possible now; small pieces are joined."""
        first = buffers[0]
        if len(first) < _SMALL and len(buffers) > 1:
            first = b"".join(_first_pieces(buffers))
        try:
            return self.send(first)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            raise BlockingIOError from None

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        """Receive available bytes."""
        try:
            return super().recv_into(buffer, nbytes, flags)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            raise BlockingIOError from None

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Receive available bytes; with MSG_PEEK only tell whether the peer is connected."""
        if flags == socket.MSG_PEEK:
            return socket.socket.recv(self, buflen, flags)
        return super().recv(buflen, flags)


_SMALL = 1 << 14


def _first_pieces(buffers: Sequence[Bytes]) -> list[Any]:
    """Return the pieces to send together: repeated calls begin with the same ones, as TLS requires."""
    pieces, size = [], 0
    for piece in buffers:
        room = _SMALL - size
        if room <= 0:
            break
        pieces.append(piece[:room])
        size += len(pieces[-1])
    return pieces


def connect(
    where: Endpoint, token: bytes, proof: bytes, purpose: str, timeout: float, peer: ObjectId | None = None
) -> socket.socket:
    """Connect to another worker for one purpose; returns a socket.

    With the id of a peer, a certificate that names another node is refused (see `node_names`).

    Raises:
        OSError: it can't be reached, or is another node.
        AuthenticationError: the token is invalid.
    """
    deadline = time.monotonic() + timeout
    host, sock = reach(where, deadline, token, peer)
    try:
        if where.context is not None:
            where.context.sslsocket_class = TlsSocket
            sock = secure = where.context.wrap_socket(sock, server_hostname=host)
            if peer is not None:
                check_peer(secure.getpeercert(), peer, where.url)

        def receive(count: int) -> bytes:
            sock.settimeout(left(deadline))
            return sock.recv(count)  # not more: bytes after the proof belong to the connection

        _authenticate(where, sock.sendall, receive, token, proof, purpose)
        return handshake.ready(sock)
    except Exception:
        sock.close()
        raise


def open_pipe(where: Endpoint, token: bytes, proof: bytes, timeout: float, peer: ObjectId | None = None) -> SocketPipe:
    """Connect to another worker for a stream; one thread may read while others write."""
    deadline = time.monotonic() + timeout
    host, sock = reach(where, deadline, token, peer)

    def receive(count: int) -> bytes:
        return bytes(pipe.receive(left(deadline)))

    try:
        pipe = client_pipe(sock, where.context, host)
        if where.context is not None and peer is not None:
            check_peer(pipe.certificate(), peer, where.url)
        _authenticate(where, pipe.send, receive, token, proof, STREAM)
        return pipe
    except Exception:
        sock.close()
        raise


def keep_alive(sock: socket.socket) -> None:
    """Have the operating system detect a lost peer."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in _ALIVE:
        with contextlib.suppress(OSError, AttributeError):  # not every system has all of them
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def left(deadline: float) -> float:
    """Return the seconds until a deadline; raises TimeoutError after it."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("the node did not answer in time")
    return seconds


def reach(where: Endpoint, deadline: float, token: bytes, peer: ObjectId | None = None) -> tuple[str, socket.socket]:
    """Connect to the host of an address by a deadline; returns its name and the socket.

    If `where.dial` is set, the other end has also switched to bytes.
    """
    if where.dial is not None:
        return "", where.dial(left(deadline), token, peer)
    parts = urlsplit(where.url)
    host, port = parts.hostname or "", parts.port or 0
    sock = socket.create_connection((host, port), timeout=left(deadline))
    keep_alive(sock)
    return host, sock


def ask_switch(where: Endpoint, send: Callable[[Any], Any], receive: Callable[[int], bytes], token: bytes) -> None:
    """Request the switch from HTTP to bytes. The peer sends nothing before it.

    Raises:
        OSError: no node answers there.
        AuthenticationError: a node answers, and rejects the token.
    """
    send(
        f"GET {PATH} HTTP/1.1\r\nHost: {urlsplit(where.url).netloc}\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n"
        f"Authorization: Peer {token.hex()}\r\n\r\n".encode("ascii")
    )
    head = b""
    while b"\r\n\r\n" not in head:
        head += _some(receive(_MAX_HEAD))
        if len(head) > _MAX_HEAD:
            raise ConnectionError("the server there is not a node")
    status = _STATUS.match(head)
    if status is None or _OURS.search(head) is None:
        raise ConnectionError("the server there is not a node")
    if status[1] == b"401":
        raise AuthenticationError("It does not know this worker.")
    if status[1] != b"101" or not head.endswith(b"\r\n\r\n"):
        raise ConnectionError("the node does not accept connections")


def _authenticate(
    where: Endpoint,
    send: Callable[[Any], Any],
    receive: Callable[[int], bytes],
    token: bytes,
    proof: bytes,
    purpose: str,
) -> None:
    """Switch to bytes, and authenticate each other."""
    if where.dial is None:
        ask_switch(where, send, receive, token)
    send(handshake.hello(token, purpose))
    shown = b""
    while len(shown) < TOKEN_BYTES:
        shown += _some(receive(TOKEN_BYTES - len(shown)))
    if not hmac.compare_digest(shown, proof):
        raise ConnectionError("another server answered in its place")


def _some(data: bytes) -> bytes:
    if not data:
        raise ConnectionError("the connection was closed")
    return data
