"""What is open to other workers in this process, and what becomes of it when the process forks, and when it ends.

A child that was forked has the parent's connections, and the locks as they were. If it spoke over them, the parent's
calls would be taken for repetitions of the child's. So in the child they are lost, and only there: its handles are
closed, nothing is said to the other end, and nothing waits for a lock. When a process ends, what was gathered is
delivered first, and what went wrong is told.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import time
import weakref
from typing import TYPE_CHECKING, Any, Protocol

from syft.config import current, override

if TYPE_CHECKING:
    from syft.workers.transport.stream import Stream

logger = logging.getLogger("syft.workers")
FORKED = "it was opened by another process, from which this one was forked; connect again here."
# How many seconds the end of a process waits, at most, until what was sent is done.
_LAST_SECONDS = 5.0


class Forkable(Protocol):
    """Something that belongs to the process that opened it."""

    def abandon(self) -> None:
        """Leave it to the process from which this one was forked. Takes no lock: who held it is not here."""
        ...


_open: weakref.WeakSet[Any] = weakref.WeakSet()
_streams: weakref.WeakSet[Any] = weakref.WeakSet()


def belongs_here(thing: Forkable) -> None:
    """Have something abandoned in processes that are forked from this one."""
    _open.add(thing)


def ends_here(stream: Stream) -> None:
    """Have a stream abandoned in forked processes, and closed when this one ends."""
    _open.add(stream)
    _streams.add(stream)
    # The last that is registered is called first: before processes of workers are ended.
    atexit.unregister(close_streams)
    atexit.register(close_streams)


def close_streams() -> None:
    """Close all streams as the process ends, and tell what went wrong: nobody is there to catch it."""
    end = time.monotonic() + _LAST_SECONDS
    for stream in list(_streams):
        left = max(0.1, end - time.monotonic())
        try:
            with override(stream_timeout=min(left, current().stream_timeout)):
                stream.close()
        except Exception as error:
            notes = "\n".join(["", *getattr(error, "__notes__", ())])
            logger.warning("A call to %r had failed: %s%s", stream.location.id, error, notes)


def drop(sock: socket.socket) -> None:
    """Close the handle of a socket, and say nothing to the other end: others have it, too."""
    handle = sock.detach()
    if handle >= 0:
        os.close(handle)


def _abandon_all() -> None:
    opened = list(_open)
    _open.clear()
    _streams.clear()
    for thing in opened:
        thing.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)
