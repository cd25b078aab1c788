"""Connections between processes of one machine, authenticated by secrets that both sides got beforehand.

A listener is bound to this machine only, and still trusts no peer: the client shows a token, the worker a proof.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import os
import socket
import struct
import time

LOOPBACK = "127.0.0.1"
TOKEN_BYTES = 32
HANDSHAKE_SECONDS = 10.0
MAX_PURPOSE = 200
_HELLO = struct.Struct(f"<4s{TOKEN_BYTES}sB")
_MAGIC = b"syf1"


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    """The port of a worker for one client, and their secrets; never printed.

    Attributes:
        port: the port on this machine.
        token: the secret that the client shows.
        proof: the secret that the worker shows.
    """

    port: int
    token: bytes = dataclasses.field(repr=False)
    proof: bytes = dataclasses.field(repr=False)

    @classmethod
    def fresh(cls, port: int) -> Address:
        """Make an address with new secrets."""
        return cls(port, os.urandom(TOKEN_BYTES), os.urandom(TOKEN_BYTES))


def fingerprint(token: bytes) -> bytes:
    """Return the key for looking a token up, so that the time of a look-up reveals nothing about a token."""
    return hashlib.sha256(token).digest()


def listen() -> socket.socket:
    """Open a port that only this machine reaches."""
    return socket.create_server((LOOPBACK, 0), backlog=128)


def connect(address: Address, purpose: str = "", timeout: float = HANDSHAKE_SECONDS) -> socket.socket:
    """Connect to a worker for a purpose (empty: a stream), and authenticate each other."""
    sock = socket.create_connection((LOOPBACK, address.port), timeout=timeout)
    try:
        sock.sendall(hello(address.token, purpose))
        if not hmac.compare_digest(receive_exactly(sock, TOKEN_BYTES), address.proof):
            raise ConnectionError("another process answered on its port")
        return ready(sock)
    except OSError:
        sock.close()
        raise


def hello(token: bytes, purpose: str) -> bytes:
    """Return the first message of a client: its token and purpose."""
    word = purpose.encode()
    return _HELLO.pack(_MAGIC, token, len(word)) + word


def receive_hello(sock: socket.socket) -> tuple[bytes, str]:
    """Read the token and the purpose of a client, within HANDSHAKE_SECONDS."""
    deadline = time.monotonic() + HANDSHAKE_SECONDS
    magic, token, size = _HELLO.unpack(receive_exactly(sock, _HELLO.size, deadline))
    if magic != _MAGIC or size > MAX_PURPOSE:
        raise ConnectionError("the peer sent no valid hello")
    return token, receive_exactly(sock, size, deadline).decode("utf-8", "replace")


def ready(sock: socket.socket) -> socket.socket:
    """Prepare a socket for frames: no timeout, and small ones are sent at once."""
    sock.settimeout(None)
    if sock.family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def receive_exactly(sock: socket.socket, size: int, deadline: float | None = None) -> bytes:
    """Receive an exact, small number of bytes by a deadline; without one the timeout of the socket applies."""
    received = b""
    while len(received) < size:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("the handshake took too long")
            sock.settimeout(left)
        piece = sock.recv(size - len(received))
        if not piece:
            raise ConnectionError("the connection was closed")
        received += piece
    return received
