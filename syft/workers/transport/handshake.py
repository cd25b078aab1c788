"""How two processes of one machine connect and authenticate each other: by secrets that both got beforehand.

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
    """Where a worker is reached by one client, and what they show each other; never printed.

    Attributes:
        port: the port on this machine.
        token: what the client shows.
        proof: what the worker shows.
    """

    port: int
    token: bytes = dataclasses.field(repr=False)
    proof: bytes = dataclasses.field(repr=False)

    @classmethod
    def fresh(cls, port: int) -> Address:
        """Make an address with secrets of its own."""
        return cls(port, os.urandom(TOKEN_BYTES), os.urandom(TOKEN_BYTES))


def fingerprint(token: bytes) -> bytes:
    """Return what a token is looked up by, so that the time a look-up takes says nothing about a token."""
    return hashlib.sha256(token).digest()


def listen() -> socket.socket:
    """Open a port of this machine that only this machine reaches."""
    return socket.create_server((LOOPBACK, 0), backlog=128)


def connect(address: Address, purpose: str = "", timeout: float = HANDSHAKE_SECONDS) -> socket.socket:
    """Connect to a worker and show each other who one is.

    Args:
        address: where, and the secrets.
        purpose: what the connection is for; a stream if empty.
        timeout: seconds to wait.
    """
    sock = socket.create_connection((LOOPBACK, address.port), timeout=timeout)
    try:
        sock.sendall(hello(address.token, purpose))
        if not hmac.compare_digest(receive_exactly(sock, TOKEN_BYTES), address.proof):
            raise ConnectionError("another process has taken its place")
        return ready(sock)
    except OSError:
        sock.close()
        raise


def hello(token: bytes, purpose: str) -> bytes:
    """Return what somebody who connects says first: a token and a purpose."""
    word = purpose.encode()
    return _HELLO.pack(_MAGIC, token, len(word)) + word


def receive_hello(sock: socket.socket) -> tuple[bytes, str]:
    """Read the token and the purpose of whoever connected, within HANDSHAKE_SECONDS altogether."""
    deadline = time.monotonic() + HANDSHAKE_SECONDS
    magic, token, size = _HELLO.unpack(receive_exactly(sock, _HELLO.size, deadline))
    if magic != _MAGIC or size > MAX_PURPOSE:
        raise ConnectionError("not one of us")
    return token, receive_exactly(sock, size, deadline).decode("utf-8", "replace")


def ready(sock: socket.socket) -> socket.socket:
    """Set a socket up for frames: no time limit, and small ones leave at once."""
    sock.settimeout(None)
    if sock.family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def receive_exactly(sock: socket.socket, size: int, deadline: float | None = None) -> bytes:
    """Receive a small number of bytes, all of them.

    Args:
        sock: the socket.
        size: how many.
        deadline: when all must be there, by the monotonic clock; None: each may take as long as the socket lets it.
    """
    received = b""
    while len(received) < size:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("it did not say in time who it is")
            sock.settimeout(left)
        piece = sock.recv(size - len(received))
        if not piece:
            raise ConnectionError("the connection was closed")
        received += piece
    return received
