"""ConnectionLimits: limits on the connections that the supervisor relays, for each process and for the node.

A relayed connection costs the supervisor a thread or buffers. The supervisor itself detects its end, so no process can
release a connection that is still open.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

# Maximum number of relayed connections of one process and of a node.
MAX_PROCESS_RELAYS = 256
MAX_NODE_RELAYS = 1024


class ConnectionLimits:
    """A bounded number of connections.

    Args:
        limit: the maximum number of connections.
        within: limits that each connection counts in too, or None.
    """

    def __init__(self, limit: int, within: ConnectionLimits | None = None) -> None:
        self.limit = limit
        self.used = 0
        self._within = within
        self._lock = threading.Lock()

    def acquire(self) -> Callable[[], None] | None:
        """Count a connection and return the function that releases it, once; None if the limit is reached."""
        with self._lock:
            if self.used >= self.limit:
                return None
            self.used += 1
        outer = None
        if self._within is not None and (outer := self._within.acquire()) is None:
            self._release()
            return None
        released = threading.Lock()

        def release() -> None:
            if released.acquire(blocking=False):
                self._release()
                if outer is not None:
                    outer()

        return release

    def _release(self) -> None:
        with self._lock:
            self.used -= 1
