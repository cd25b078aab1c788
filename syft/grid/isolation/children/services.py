"""Services: what a child process asks of the supervisor.

A thread that works on a client's request asks over the channel of that request, where the supervisor waits for the
answer anyway; any other thread asks over a channel that all of them share.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from syft import exceptions
from syft.exceptions import RemoteError, SyftError
from syft.grid.isolation.processes.channel import Channel, Frame, FrameKind

# The channel of the request that this thread works on.
_current: contextvars.ContextVar[Channel | None] = contextvars.ContextVar("syft_request_channel", default=None)

_ERRORS: dict[str, type[Exception]] = {
    name: kind for name, kind in vars(exceptions).items() if isinstance(kind, type) and issubclass(kind, SyftError)
}


class SupervisorGone(SyftError):
    """The supervisor closed the channel: this process is about to end."""


class Services:
    """Calls to the supervisor.

    Args:
        shared: the channel for threads that work on no request.
    """

    def __init__(self, shared: Channel) -> None:
        self._shared = shared
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def over(self, channel: Channel) -> Iterator[None]:
        """Ask over the channel of a request inside a `with` block."""
        before = _current.set(channel)
        try:
            yield
        finally:
            _current.reset(before)

    def ask(self, name: str, *args: Any, body: Any = b"", fds: Sequence[int] = ()) -> Frame:
        """Make a call and return the whole answer."""
        channel = _current.get()
        if channel is not None:
            return _exchange(channel, name, args, body, fds)
        with self._lock:
            return _exchange(self._shared, name, args, body, fds)

    def call(self, name: str, *args: Any, body: Any = b"") -> Any:
        """Make a call and return the plain value of its answer."""
        return self.ask(name, *args, body=body).header


def _exchange(channel: Channel, name: str, args: tuple[Any, ...], body: Any, fds: Sequence[int]) -> Frame:
    try:
        channel.send(FrameKind.CALL, (name, args), body, fds)
    except OSError:
        raise SupervisorGone("The node closed the channel of this session.") from None
    frame = channel.receive()
    if frame is None:
        raise SupervisorGone("The node closed the channel of this session.")
    if frame.kind is FrameKind.RESULT:
        return frame
    kind, text = frame.header
    known = _ERRORS.get(kind, RemoteError)
    error = known.__new__(known)
    Exception.__init__(error, text)
    raise error
