"""WebsocketPipe: bytes to and from a server over one WebSocket, blocking, for the client side.

Bytes are cut into binary messages at arbitrary positions. Redirects are not followed, since they would send a token
elsewhere. Nothing is compressed here: messages are compressed before.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException
from websockets.frames import Frame, Opcode
from websockets.protocol import CLOSED, CONNECTING
from websockets.uri import parse_uri

from syft.config import current
from syft.core.labels import printable
from syft.exceptions import AuthenticationError, SyftError
from syft.workers.transport.pipe import SMALL, Bytes, SocketPipe
from syft.workers.transport.program_key import HEADER, program_key
from syft.workers.transport.tls import is_loopback

# Largest binary message, sent or received.
CHUNK = 1 << 20
# Heartbeats that the peer may take to make room for more bytes.
_SEND_HEARTBEATS = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a server and how to connect; never printed with its token.

    Attributes:
        url: ws://host:port/path or wss://host:port/path.
        token: the bearer token; None for a server of this machine without authentication.
        context: verifies its certificate; needed for wss.
        dial: opens the connection instead of this process, given seconds, the token for the node and its id; encrypts
            if needed, and returns it after the switch to bytes.
    """

    url: str
    token: str | None = dataclasses.field(default=None, repr=False)
    context: ssl.SSLContext | None = dataclasses.field(default=None, repr=False)
    dial: Callable[[float, bytes, Any], socket.socket] | None = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.token is not None:
            object.__setattr__(self, "token", clean_token(self.token))

    def at(self, path: str) -> Endpoint:
        """Return the same server at another path."""
        parts = urlsplit(self.url)
        return dataclasses.replace(self, url=f"{parts.scheme}://{parts.netloc}{path}")


def clean_token(token: object) -> str:
    """Return a token without the line end of the file that it was read from; errors never show it.

    Raises:
        AuthenticationError: it is not a token.
    """
    text = token.strip() if isinstance(token, str) else ""
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise AuthenticationError(
            "This is not a valid token: a token consists of letters, digits, dots and dashes. Pass the contents of its "
            "file, and nothing else."
        )
    return text


def client_pipe(sock: socket.socket, context: ssl.SSLContext | None, host: str) -> SocketPipe:
    """Return a pipe to a server over a connected socket, after the TLS handshake if there is a context."""
    pipe = SocketPipe(sock, send_timeout=_SEND_HEARTBEATS * current().heartbeat, context=context, host=host)
    sock.settimeout(None)
    return pipe


class WebsocketPipe:
    """A WebSocket to a server; the timeout is for the handshake.

    Raises:
        OSError: it can't be reached, or its certificate is invalid.
        AuthenticationError: the token is invalid.
        SyftError: the server is not a node.
    """

    pause_timeout: float | None = None  # heartbeats detect a lost server

    def __init__(self, where: Endpoint, timeout: float) -> None:
        uri = parse_uri(where.url)
        if uri.secure and where.context is None:
            raise SyftError("A wss:// address needs a context that checks its certificate.")
        deadline = time.monotonic() + timeout
        self._heartbeat = current().heartbeat
        self._protocol = ClientProtocol(uri, max_size=2 * CHUNK)
        self._parsing = threading.Lock()
        self._writing = threading.Lock()
        self._arrived: collections.deque[bytes] = collections.deque()
        sock = socket.create_connection((uri.host, uri.port), timeout=timeout)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._wire = client_pipe(sock, where.context if uri.secure else None, uri.host)
            self._open(where, deadline, sock.getpeername()[:2])
        except Exception:
            sock.close()
            raise

    def _open(self, where: Endpoint, deadline: float, peer: tuple[str, int]) -> None:
        request = self._protocol.connect()
        if where.token is not None:
            request.headers["Authorization"] = f"Bearer {where.token}"
        elif is_loopback(self._protocol.uri.host):  # the address that it was resolved to, which tells servers apart
            request.headers[HEADER] = program_key(*peer)
        self._protocol.send_request(request)
        self._flush()
        while self._protocol.state is CONNECTING and self._protocol.handshake_exc is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("the server did not answer in time")
            self._take(self._wire.receive(left))
        if self._protocol.handshake_exc is not None:
            raise _refusal(self._protocol.handshake_exc)

    def _take(self, data: Bytes) -> None:
        """Pass bytes of the socket to the protocol, and keep the payload."""
        with self._parsing:
            if data:
                self._protocol.receive_data(bytes(data))
            else:
                self._protocol.receive_eof()
            for event in self._protocol.events_received():
                if isinstance(event, Frame) and event.opcode in (Opcode.BINARY, Opcode.CONT) and event.data:
                    self._arrived.append(bytes(event.data))

    def recv(self, within: float | None = None) -> bytes:
        """Return bytes, waiting for them; empty at the end, for whatever reason."""
        silent = False
        while not self._arrived:
            if self._protocol.state is CLOSED:
                return b""
            try:
                data = self._wire.receive(self._heartbeat)
                silent = False
                self._take(data)
            except TimeoutError:
                if silent:  # not even a ping was answered
                    return b""
                silent = True
                with self._parsing:
                    self._protocol.send_ping(b"")
            except (OSError, ValueError):
                return b""
            # Pong frames. The reader must never block on the writer: the peer may be waiting to be read from.
            if self._writing.acquire(blocking=False):
                try:
                    self._flush()
                except (OSError, ValueError):
                    return b"" if not self._arrived else self._arrived.popleft()
                finally:
                    self._writing.release()
        return self._arrived.popleft()

    def send(self, data: Bytes) -> None:
        """Send bytes, at most CHUNK of them, waiting until there is room for them.

        Raises:
            OSError: the peer is gone.
        """
        with self._writing:
            try:
                with self._parsing:
                    self._protocol.send_binary(data)
                self._flush()
            except (WebSocketException, ValueError) as error:
                raise ConnectionError("the connection is closed") from error

    def send_some(self, data: Bytes) -> int:
        """Send the bytes if that takes no waiting; returns their number, or 0."""
        if len(data) > SMALL or not self._wire.has_room():
            return 0
        self.send(data)
        return len(data)

    def _flush(self) -> None:
        with self._parsing:
            pieces = self._protocol.data_to_send()
        for piece in pieces:
            if piece:  # an empty piece announces the end, as closing does
                self._wire.send(piece)

    def finish(self) -> None:
        """Announce the end of the data."""
        with contextlib.suppress(OSError, WebSocketException, ValueError), self._writing:
            with self._parsing:
                self._protocol.send_close(1000)
            self._flush()

    def detach_after_fork(self) -> None:
        """Close the handle in this process only; the process it was forked from keeps the connection."""
        self._wire.detach_after_fork()

    def close(self) -> None:
        """Close the connection; pending reads and writes end."""
        self._wire.close()


def _refusal(error: Exception) -> Exception:
    """Return the error for a failed handshake."""
    if isinstance(error, InvalidStatus):
        status, body = error.response.status_code, bytes(error.response.body or b"")
        said = printable(body[:500].decode("utf-8", "replace"))
        if status in (401, 403):
            return AuthenticationError(said or "The token is invalid.")
        if status >= 500:  # it may recover
            return ConnectionError(f"it answered with HTTP status {status}: {said or 'no reason'}")
        return SyftError(f"It answered with HTTP status {status}: {said or 'no reason'}.")
    if isinstance(error, InvalidHandshake) and not isinstance(error.__cause__, EOFError):
        return SyftError("The server there does not support WebSockets.")
    return ConnectionError("the server aborted the handshake")
