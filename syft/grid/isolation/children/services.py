"""Services: calls of a child process to the supervisor.

A thread that serves a client's request calls over the channel of that request, where the supervisor waits for the
answer anyway; all other threads share one channel.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from syft import exceptions
from syft.exceptions import RemoteError, SyftError
from syft.grid.isolation.processes.channel import Bytes, Channel, Frame, FrameKind

# The channel of the request that this thread serves.
_current: contextvars.ContextVar[Channel | None] = contextvars.ContextVar("syft_request_channel", default=None)

_ERRORS: dict[str, type[Exception]] = {
    name: kind for name, kind in vars(exceptions).items() if isinstance(kind, type) and issubclass(kind, SyftError)
}


def error_by_name(name: object, text: str, default: type[Exception]) -> Exception:
    """Return an error of the library by the name of its class, or of the default class for an unknown name."""
    kind = _ERRORS.get(name, default) if isinstance(name, str) else default
    error = kind.__new__(kind)
    Exception.__init__(error, text)
    return error


class SupervisorGoneError(SyftError):
    """The supervisor closed the channel: this process is about to end."""


class Services:
    """Calls to the supervisor."""

    def __init__(self, shared: Channel) -> None:
        self._shared = shared
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def over(self, channel: Channel) -> Iterator[None]:
        """Make calls over the channel of a request inside a `with` block."""
        before = _current.set(channel)
        try:
            yield
        finally:
            _current.reset(before)

    def ask(self, name: str, *args: object, body: Bytes = b"", fds: Sequence[int] = ()) -> Frame:
        """Make a call and return the whole frame of its answer."""
        channel = _current.get()
        if channel is not None:
            return _exchange(channel, name, args, body, fds)
        with self._lock:
            return _exchange(self._shared, name, args, body, fds)

    def call(self, name: str, *args: object, body: Bytes = b"") -> Any:
        """Make a call and return the plain value of its answer."""
        return self.ask(name, *args, body=body).header


def _exchange(channel: Channel, name: str, args: tuple[object, ...], body: Bytes, fds: Sequence[int]) -> Frame:
    try:
        channel.send(FrameKind.CALL, (name, args), body, fds)
    except OSError:
        raise SupervisorGoneError("The node closed the channel of this session.") from None
    frame = channel.receive()
    if frame is None:
        raise SupervisorGoneError("The node closed the channel of this session.")
    if frame.kind is FrameKind.RESULT:
        return frame
    kind, text = frame.header
    raise error_by_name(kind, text, RemoteError)
