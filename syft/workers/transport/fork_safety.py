"""Connections of this process, and their end when the process forks or exits.

A forked child inherits the parent's connections, and locks in any state. If it used them, the parent's calls would
look like repetitions of the child's. So they are lost in the child, and only there: its handles are closed without
a message to the peer, and without waiting for a lock. When a process exits, batched calls are delivered first, and
errors are logged.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import time
import weakref
from typing import TYPE_CHECKING, Any

from syft.config import current, override
from syft.exceptions.remote_traceback import facts_of

if TYPE_CHECKING:
    from syft.workers.transport.stream import Stream

logger = logging.getLogger("syft.workers")
FORKED = "it was opened by another process, from which this one was forked; connect again here."
# Seconds that the exit of a process waits for pending requests.
_LAST_SECONDS = 5.0


_open: weakref.WeakSet[Any] = weakref.WeakSet()
_streams: weakref.WeakSet[Any] = weakref.WeakSet()


def belongs_here(thing: Any) -> None:
    """Call `detach_after_fork` of an object in forked processes; it must take no lock."""
    _open.add(thing)


def ends_here(stream: Stream) -> None:
    """Abandon a stream in forked processes, and close it when this one exits."""
    _open.add(stream)
    _streams.add(stream)
    # Registered last, so it is called first: before the processes of workers end.
    atexit.unregister(close_streams)
    atexit.register(close_streams)


def close_streams() -> None:
    """Close all streams as the process exits, and log errors: no caller is left to catch them."""
    end = time.monotonic() + _LAST_SECONDS
    for stream in list(_streams):
        left = max(0.1, end - time.monotonic())
        try:
            with override(stream_timeout=min(left, current().stream_timeout)):
                stream.close()
        except Exception as error:
            logger.warning("A call to %r had failed: %s\n%s", stream.location.id, error, facts_of(error))


def drop(sock: socket.socket) -> None:
    """Close the handle of a socket without a message to the peer: other processes use it, too."""
    handle = sock.detach()
    if handle >= 0:
        os.close(handle)


def _detach_all() -> None:
    opened = list(_open)
    _open.clear()
    _streams.clear()
    for thing in opened:
        thing.detach_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_detach_all)
