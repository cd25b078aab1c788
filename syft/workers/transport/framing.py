"""Frames on a socket: a kind, a number, a length and that many bytes; and how two ends make sure of each other.

A listener here is bound to this machine only, and still trusts nobody who connects: the one who comes shows a token
that the two were given beforehand, and the one who is visited shows its own.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import hmac
import os
import socket
import struct
import threading
import time
from typing import Any

from syft.core.byte_budget import ByteBudget, Holding
from syft.exceptions import ByteBudgetError, SerdeError
from syft.workers.transport.fork_safety import drop

LOOPBACK = "127.0.0.1"
TOKEN_BYTES = 32
HANDSHAKE_SECONDS = 10.0
MAX_PURPOSE = 200
# AFTER: what follows needs the orders up to a number, which come to a process by another connection.
# HELLO and WELCOME: of what session the connection is; SEEN: answers up to a number arrived; BYE: the session ends.
# NOTICE: objects of the client that are in the vault from now on, with the reason for each.
REQUEST, ANSWER, CONTROL, AFTER, HELLO, WELCOME, SEEN, BYE, NOTICE = range(9)
_HEADER = struct.Struct("<BQQ")
_HELLO = struct.Struct(f"<4s{TOKEN_BYTES}sB")
_MAGIC = b"syf1"
# Below this a frame is put together before it is sent: one copy is cheaper than another system call.
_SMALL = 1 << 16
# Bytes of a large frame that are received at once.
_PIECE = 1 << 18


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


class Connection:
    """Frames on a connected socket.

    Args:
        sock: the socket.
        limit: the largest frame that is read.
        largest: the largest frame that is written; as large as those that are read if it is not given.
        budget: the budget that a frame takes its bytes from until the next one is read; None: there is no limit.
    """

    def __init__(
        self, sock: socket.socket, limit: int, largest: int | None = None, budget: ByteBudget | None = None
    ) -> None:
        self._sock = sock
        self._limit = limit
        self._largest = limit if largest is None else largest
        self._held = None if budget is None else Holding(budget, evict=self.close)
        self._reader: Any = sock.makefile("rb", buffering=_SMALL)
        self._writing = threading.Condition()
        self._backlog: collections.deque[Any] = collections.deque()
        self._writer: threading.Thread | None = None
        self._closed = False

    def read(self) -> tuple[int, int, Any] | None:
        """Read a frame: kind, number, contents. None at the end, however it came.

        Raises:
            SerdeError: it is larger than the limit, or than the budget has room for; the connection can't be read on.
        """
        if self._held is not None:
            self._held.release()  # the frame before was dealt with
        try:
            header = self._fill(bytearray(_HEADER.size))
            if header is None:
                return None
            kind, number, length = _HEADER.unpack(header)
            if length > self._limit:
                raise SerdeError(f"A frame has {length} bytes and the limit (max_message_bytes) is {self._limit}.")
            self._reserve(length)
            contents = self._contents(length)
            return None if contents is None else (kind, number, contents)
        except (OSError, ValueError):  # reset by the peer, or closed here meanwhile
            return None
        finally:
            if self._held is not None:
                self._held.complete()

    def _reserve(self, length: int) -> None:
        """Take the bytes of a large frame from the budget before it is received."""
        if self._held is not None and length > _SMALL:
            try:
                self._held.take(length)
            except ByteBudgetError as error:
                raise SerdeError(str(error)) from None
            self._held.begin()

    def release(self) -> None:
        """Give back what the last frame took from the budget; called by the thread that reads, when it has ended."""
        if self._held is not None:
            self._held.release(for_good=True)

    def _contents(self, length: int) -> bytearray | None:
        """Read the contents of a frame; memory for a large one is taken as they arrive, not because of a header."""
        if length <= _SMALL:
            return self._fill(bytearray(length))
        contents = bytearray()
        with memoryview(bytearray(_PIECE)) as piece:
            while len(contents) < length:
                count = self._reader.readinto(piece[: length - len(contents)])
                if not count:
                    return None
                contents += piece[:count]
        return contents

    def _fill(self, buffer: bytearray) -> bytearray | None:
        view = memoryview(buffer)
        while len(view):
            count = self._reader.readinto(view)
            if not count:
                return None
            view = view[count:]
        return buffer

    def write(self, kind: int, number: int, contents: Any) -> None:
        """Write a frame and wait until it is on its way.

        Raises:
            OSError: the other end is gone.
            SerdeError: it is larger than what is read here, and so at the other end.
        """
        self.write_pieces(kind, number, [contents])

    def write_pieces(self, kind: int, number: int, pieces: list[Any]) -> None:
        """Write a frame whose contents lie in several places, without putting them together."""
        length = sum(map(len, pieces))
        if length > self._largest:
            raise SerdeError(f"A frame has {length} bytes and the limit (max_message_bytes) is {self._largest}.")
        header = _HEADER.pack(kind, number, length)
        with self._writing:
            if len(pieces) == 1 and len(pieces[0]) < _SMALL:
                self._sock.sendall(header + pieces[0])
                return
            for piece in (header, *pieces):
                self._sock.sendall(piece)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed here."""
        return self._closed

    def write_soon(self, kind: int, number: int, contents: Any) -> None:
        """Write a frame without ever waiting: what the socket does not take now, a thread writes later."""
        header = _HEADER.pack(kind, number, len(contents))
        pieces = [header + contents] if len(contents) < _SMALL else [header, contents]
        with self._writing:
            if not self._backlog:
                pieces = self._send_now(pieces)
            if pieces and not self._closed:
                self._backlog += pieces
                if self._writer is None:
                    self._writer = threading.Thread(target=self._write_backlog, name="syft writer", daemon=True)
                    self._writer.start()
                self._writing.notify_all()

    def _send_now(self, pieces: list[Any]) -> list[Any]:
        """Send what the socket takes at once and return the rest; nothing if the other end is gone."""
        try:
            sent = self._sock.sendmsg(pieces, [], socket.MSG_DONTWAIT)
        except BlockingIOError:
            sent = 0
        except OSError:  # whoever reads from this connection finds out
            return []
        rest = []
        for piece in pieces:
            if sent < len(piece):
                rest.append(memoryview(piece)[sent:])
            sent = max(0, sent - len(piece))
        return rest

    def _write_backlog(self) -> None:
        while True:
            with self._writing:
                while not self._backlog and not self._closed:
                    self._writing.wait()
                if self._closed:
                    return
                piece = self._backlog[0]
            try:
                self._sock.sendall(piece)  # it stays in front meanwhile, so that nobody overtakes it
            except OSError:
                self.close()
                return
            with self._writing:
                if self._backlog:
                    self._backlog.popleft()
                self._writing.notify_all()

    def finish(self, timeout: float) -> None:
        """Write what is left and say that nothing follows; the other end answers, and then closes."""
        with self._writing:
            self._writing.wait_for(lambda: not self._backlog or self._closed, timeout)
            try:
                self._sock.shutdown(socket.SHUT_WR)
            except OSError:  # it is gone already
                pass

    def abandon(self) -> None:
        """Leave it to the process from which this one was forked: close the handle here, and say nothing."""
        self._closed = True
        self._writing = threading.Condition()
        self._backlog = collections.deque()
        self._reader.detach()  # who reads holds its lock, so closing it would wait for ever
        drop(self._sock)

    def close(self) -> None:
        """Close, whoever reads or writes meanwhile."""
        if self._closed:
            return
        self._closed = True
        try:
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes up whoever reads, or waits to be read from
        except OSError:  # the other end was faster
            pass
        with self._writing:
            self._backlog.clear()
            self._writing.notify_all()
        self._reader.close()
        self._sock.close()
