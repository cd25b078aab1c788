"""Messages between the supervisor and the template: a length, a msgpack map, and file descriptors beside them."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence
from typing import Any

import msgpack  # type: ignore[import-untyped,unused-ignore]

_LENGTH = struct.Struct("!I")
# The kernel passes at most this many descriptors with one message.
MAX_DESCRIPTORS = 250


def send(sock: socket.socket, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
    """Send a message with descriptors; raises ValueError if it holds anything but plain data."""
    if len(fds) > MAX_DESCRIPTORS:
        raise ValueError(f"at most {MAX_DESCRIPTORS} descriptors can be passed at once, got {len(fds)}")
    try:
        body = msgpack.packb(message)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"settings must be plain data: {error}") from error
    # The descriptors are sent with the length, which a stream socket always accepts whole.
    socket.send_fds(sock, [_LENGTH.pack(len(body))], list(fds))
    sock.sendall(body)


def receive(sock: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Receive a message with its descriptors, or None at the end of the stream."""
    header, fds, flags, _ = socket.recv_fds(sock, _LENGTH.size, MAX_DESCRIPTORS)
    if flags & socket.MSG_CTRUNC:
        for fd in fds:
            os.close(fd)
        raise OSError("file descriptors were dropped: the limit on open files is reached")
    if not header:
        return None
    header += _exactly(sock, _LENGTH.size - len(header))
    message = msgpack.unpackb(_exactly(sock, _LENGTH.unpack(header)[0]))
    return message, list(fds)


def _exactly(sock: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = sock.recv(count - len(parts))
        if not part:
            raise EOFError("the connection ended inside a message")
        parts += part
    return bytes(parts)
