"""Channel: framed messages between the supervisor and one of its child processes, over a socket pair.

A frame has a kind, a header of plain values (msgpack), a body of bytes, and possibly file descriptors. Neither side
trusts the other: lengths are bounded before memory is taken, and a header holds plain values only.
"""

from __future__ import annotations

import contextlib
import enum
import os
import socket
import struct
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import msgpack  # type: ignore[import-untyped,unused-ignore]

from syft.core.byte_budget import WAIT_SECONDS, ByteBudget, Holding
from syft.exceptions import ByteBudgetError, SerdeError
from syft.workers.transport.framing import RefusedBody

# The body of a frame that is sent.
Bytes: TypeAlias = bytes | bytearray | memoryview
_FRAME = struct.Struct("<BBIQ")
MAX_HEADER = 16 << 20
# Headers from a child process. One byte can become an object of 64 bytes.
MAX_CHILD_HEADER = 1 << 18
# The kernel passes slightly more than this number of descriptors with one message.
MAX_FDS = 250
# msgpack's integers have 64 bits; ids have up to 128 and travel as an extension type.
_BIG_INT = 1
_ONE_SEND = 1 << 20
_BUFFER = 1 << 20
_ONE_SECOND = 1.0
# Bodies of at least this size are charged to the budget.
_COUNTED = 1 << 16


class FrameKind(enum.IntEnum):
    """The kind of a frame."""

    REQUEST = 1  # supervisor -> child: a client's request
    ANSWER = 2  # child -> supervisor: the answer to it
    CALL = 3  # child -> supervisor: a call to the supervisor, while the child serves a request
    RESULT = 4  # supervisor -> child: the answer to a CALL
    ERROR = 5  # supervisor -> child: a CALL was refused
    ORDER = 6  # supervisor -> child: an order without an answer
    FAILED = 7  # child -> supervisor: an order or a request failed


_FROM_CHILDREN = frozenset({FrameKind.ANSWER, FrameKind.CALL, FrameKind.FAILED})


class Frame(NamedTuple):
    """A received frame.

    Attributes:
        kind: the kind of the frame.
        header: plain values.
        body: bytes; empty for most frames.
        fds: file descriptors, owned by the receiver.
    """

    kind: FrameKind
    header: Any
    body: bytearray
    fds: list[int]


class Channel:
    """One end of a socket pair. One thread reads; any number may write.

    Args:
        sock: the socket.
        limit: the largest body that is accepted.
        max_header: the largest header that is accepted.
        takes_fds: whether descriptors are accepted; if not, the system discards them.
        budget: the budget that a body is charged to until the next frame is received; None: without a limit.
    """

    def __init__(
        self,
        sock: socket.socket,
        limit: int,
        max_header: int = MAX_HEADER,
        takes_fds: bool = True,
        budget: ByteBudget | None = None,
    ) -> None:
        self.sock = sock
        self.limit = limit
        self.max_header = max_header
        self._max_fds = MAX_FDS if takes_fds else 0
        self._held = None if budget is None else Holding(budget)
        self._writing = threading.Lock()
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER)

    def send_at_once(self, kind: FrameKind, header: object, fds: Sequence[int] = ()) -> None:
        """Send a small frame without waiting. Raises OSError if the other end is closed or does not read."""
        packed = _packed(header)
        first = _FRAME.pack(kind, len(fds), len(packed), 0) + packed
        if not self._writing.acquire(timeout=_ONE_SECOND):
            raise BlockingIOError("the other end does not read")
        try:
            if socket.send_fds(self.sock, [first], list(fds), socket.MSG_DONTWAIT) < len(first):
                raise BlockingIOError("the other end does not read")
        finally:
            self._writing.release()

    def send(self, kind: FrameKind, header: object, body: Bytes = b"", fds: Sequence[int] = ()) -> None:
        """Send a frame and wait until the socket has accepted it. Raises OSError if the other end is closed."""
        packed = _packed(header)
        largest = MAX_CHILD_HEADER if kind in _FROM_CHILDREN else MAX_HEADER
        if len(packed) > largest or len(fds) > MAX_FDS:
            raise SerdeError(f"A frame header of {len(packed)} bytes with {len(fds)} descriptors is too large.")
        view = memoryview(body).cast("B") if len(body) else memoryview(b"")
        first = _FRAME.pack(kind, len(fds), len(packed), len(view)) + packed
        if len(view) <= 1 << 16:
            first, view = first + bytes(view), memoryview(b"")
        with self._writing:
            sent = socket.send_fds(self.sock, [first], list(fds)) if fds else self.sock.send(first)
            if sent < len(first):
                self.sock.sendall(memoryview(first)[sent:])
            while view:
                view = view[self.sock.send(view[:_ONE_SEND]) :]

    def receive(self) -> Frame | None:
        """Return the next frame; None if the other end is closed. Raises SerdeError for a malformed frame.

        A body that exceeds the budget is discarded as it arrives; the frame has a body of type `RefusedBody`.
        """
        self.release()  # the previous frame is processed
        fds: list[int] = []
        frame = None
        try:
            frame = self._receive(fds)
        except OSError:
            pass
        finally:
            if frame is None:
                self.release()
                for fd in fds:
                    os.close(fd)
        return frame

    def _receive(self, fds: list[int]) -> Frame | None:
        start = self._receive_start(fds)
        if start is None:
            return None
        kind, count, header_size, body_size = _FRAME.unpack(start)
        if count != len(fds) or header_size > self.max_header or body_size > self.limit:
            raise SerdeError(f"A frame of {header_size} + {body_size} bytes exceeds the limit of {self.limit}.")
        header = self._receive_exactly(header_size)
        body = None if header is None else self._receive_body(body_size)
        if header is None or body is None:
            return None
        return Frame(_kind(kind), _unpacked(header), body, fds)

    def _receive_body(self, size: int) -> bytearray | None:
        if self._held is not None and size >= _COUNTED:
            try:
                self._held.take(size, WAIT_SECONDS)
            except ByteBudgetError as error:
                return RefusedBody(error) if self._discard(size) else None
        return self._receive_exactly(size)

    def _discard(self, size: int) -> bool:
        """Receive bytes without keeping them, and return whether all of them arrived."""
        piece = bytearray(min(size, _ONE_SEND))
        while size:
            with memoryview(piece) as view:
                count = self.sock.recv_into(view[:size])
            if not count:
                return False
            size -= count
        return True

    def release(self) -> None:
        """Return the bytes of the last body to the budget."""
        if self._held is not None:
            self._held.release()

    def _receive_start(self, fds: list[int]) -> bytes | None:
        if self._max_fds:
            data, received, _, _ = socket.recv_fds(self.sock, _FRAME.size, self._max_fds)
            fds += received
        else:
            data = self.sock.recv(_FRAME.size)
        while data and len(data) < _FRAME.size:
            more = self.sock.recv(_FRAME.size - len(data))
            if not more:
                return None
            data += more
        return data or None

    def _receive_exactly(self, size: int) -> bytearray | None:
        received = bytearray(min(size, _ONE_SEND))
        filled = 0
        while filled < size:
            if filled == len(received):  # memory grows with what arrives, not with what a header announces
                received += bytes(min(size - filled, len(received)))
            with memoryview(received) as view:
                count = self.sock.recv_into(view[filled:])
            if not count:
                return None
            filled += count
        return received

    def close(self) -> None:
        """Close this end; `receive` returns None from now on."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        if self._held is not None:
            self._held.release(for_good=True)


def pair(limit: int, budget: ByteBudget | None = None) -> tuple[Channel, socket.socket]:
    """Return the supervisor's end of a new channel, and the socket of the child's end."""
    ours, theirs = socket.socketpair()
    return Channel(ours, limit, MAX_CHILD_HEADER, takes_fds=False, budget=budget), theirs


def _kind(code: int) -> FrameKind:
    try:
        return FrameKind(code)
    except ValueError:
        raise SerdeError(f"A frame has the unknown kind {code}.") from None


def _packed(header: object) -> bytes:
    try:
        packed: bytes = msgpack.packb(header)
    except OverflowError:
        packed = msgpack.packb(_with_big_ints(header))
    return packed


def _with_big_ints(value: object) -> object:
    if type(value) is int and not -(2**63) <= value < 2**64:
        return msgpack.ExtType(_BIG_INT, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    if isinstance(value, tuple | list):
        return [_with_big_ints(item) for item in value]
    if isinstance(value, dict):
        return {_with_big_ints(key): _with_big_ints(item) for key, item in value.items()}
    return value


def _extension(code: int, data: bytes) -> int:
    if code != _BIG_INT or len(data) > 64:
        raise ValueError("unknown extension type")
    return int.from_bytes(data, "big", signed=True)


def _unpacked(header: bytearray) -> Any:
    try:
        # Keys are strings: hashes of numbers are predictable, so a sender could make keys collide.
        return msgpack.unpackb(header, use_list=False, strict_map_key=True, raw=False, ext_hook=_extension)
    except (ValueError, msgpack.exceptions.UnpackException, RecursionError, TypeError) as error:
        raise SerdeError(f"A frame header can't be read: {type(error).__name__}.") from None
