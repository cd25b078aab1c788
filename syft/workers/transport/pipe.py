"""Pipes carry bytes in order: `SocketPipe` over a socket, with TLS in memory where a context is given.

TLS is done in memory so that one thread may read while another writes.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from typing import Any, Protocol

from syft.workers.transport.fork_safety import drop

Bytes = bytes | bytearray | memoryview
# Bytes that are joined with their neighbours, and sent without waiting where there is any room.
SMALL = 1 << 16
_READ = 1 << 18


class Pipe(Protocol):
    """Carries bytes in order.

    Attributes:
        pause_timeout: seconds that the peer may pause in the middle of a frame; None: the pipe detects a lost peer.
    """

    pause_timeout: float | None

    def recv(self, within: float | None = None) -> bytes | memoryview:
        """Return bytes, valid until the next call; empty at the end, or if none arrive within the given seconds."""
        ...

    def send(self, data: Bytes) -> None:
        """Send bytes, waiting until there is room for them; OSError if the peer is gone."""
        ...

    def send_some(self, data: Bytes) -> int:
        """Send as many bytes as possible without waiting; returns their number."""
        ...

    def close(self) -> None:
        """Close the pipe; pending reads and writes end."""
        ...


class SocketPipe:
    """The bytes of a connected socket.

    Args:
        sock: the socket; a timeout of its own applies to reads and writes without another limit.
        pause_timeout: seconds that the peer may pause in the middle of a frame; None: any time.
        send_timeout: seconds that the peer may take to make room for more bytes; None: the timeout of the socket.
        context: verifies the certificate of the server; None: no TLS.
        host: the name that the certificate must be for.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        pause_timeout: float | None = None,
        send_timeout: float | None = None,
        context: ssl.SSLContext | None = None,
        host: str = "",
    ) -> None:
        self._sock = sock
        self.pause_timeout = pause_timeout
        self._send_timeout = send_timeout
        self._buffer = memoryview(bytearray(_READ))
        self._lock = threading.Lock()
        self._tls: ssl.SSLObject | None = None
        if context is not None:
            self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
            self._tls = context.wrap_bio(self._in, self._out, server_hostname=host)
            self._shake_hands(self._tls)

    def _shake_hands(self, tls: ssl.SSLObject) -> None:
        while True:
            try:
                tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                self._sock.sendall(self._out.read())
                self._feed(self._sock.recv_into(self._buffer))
            finally:
                if self._out.pending:  # the end of the handshake, or the reason for breaking it off
                    self._sock.sendall(self._out.read())

    def certificate(self) -> dict[str, Any] | None:
        """Return the verified certificate of the server; None without TLS."""
        return None if self._tls is None else self._tls.getpeercert()

    def _feed(self, count: int) -> None:
        if count:
            self._in.write(self._buffer[:count])
        else:
            self._in.write_eof()

    # --- reading ----------------------------------------------------------------------------------------------

    def recv(self, within: float | None = None) -> bytes | memoryview:
        """Return bytes, valid until the next call; empty at the end, or if none arrive within the given seconds."""
        try:
            return self.receive(within)
        except (OSError, ValueError):  # reset by the peer, or closed here
            return b""

    def receive(self, within: float | None = None) -> bytes | memoryview:
        """Return bytes as `recv` does; TimeoutError if none arrive in time, OSError if the connection is lost."""
        if self._tls is None:
            return self._buffer[: self._receive(within)]
        while True:
            with self._lock:
                try:
                    return self._tls.read(_READ)
                except ssl.SSLWantReadError:
                    pass
                except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                    return b""
            count = self._receive(within)
            with self._lock:
                self._feed(count)

    def _receive(self, within: float | None) -> int:
        if within is not None and not self._poll(select.POLLIN, within):
            raise TimeoutError("the peer did not answer in time")
        return self._sock.recv_into(self._buffer)

    def _poll(self, event: int, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._sock, event)
        return bool(poll.poll(seconds * 1000))

    # --- writing ----------------------------------------------------------------------------------------------

    def send(self, data: Bytes) -> None:
        """Send bytes, waiting until there is room for them; called by one thread at a time.

        Raises:
            OSError: the peer is gone, or makes no room in time.
        """
        if self._tls is not None:
            with self._lock:
                self._tls.write(data)
                data = self._out.read()
        if self._send_timeout is None:
            self._sock.sendall(data)
            return
        view = memoryview(data)
        while len(view):
            try:
                view = view[self._sock.send(view, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                if not self._poll(select.POLLOUT, self._send_timeout):
                    raise TimeoutError("the peer does not read") from None

    def send_some(self, data: Bytes) -> int:
        """Send as many bytes as possible without waiting; returns their number."""
        if self._tls is not None:  # bytes that were encrypted must all be sent
            if len(data) > SMALL or not self.has_room():
                return 0
            self.send(data)
            return len(data)
        try:
            return self._sock.sendmsg([data], [], socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def has_room(self) -> bool:
        """Return whether some bytes can be sent now without waiting."""
        try:
            return self._poll(select.POLLOUT, 0)
        except (OSError, ValueError):  # it is closed, which sending reports
            return True

    # --- the end ----------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Announce the end of the data; with TLS nothing is sent, since frames say it."""
        if self._tls is None:
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_WR)

    def detach_after_fork(self) -> None:
        """Close the handle in this process only; the process it was forked from keeps the connection."""
        drop(self._sock)

    def close(self) -> None:
        """Close the socket; pending reads and writes end."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
