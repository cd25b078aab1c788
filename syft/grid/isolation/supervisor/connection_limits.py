"""ConnectionLimits: limits on the connections that the supervisor relays, for each process and for the node.

A relayed connection costs the supervisor a thread or buffers. The supervisor sees by itself when it ends, so no
process can give places back that it still uses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

# Relayed connections of one process and of a node. A process can't have more than 256 open files anyway.
MAX_PROCESS_RELAYS = 256
MAX_NODE_RELAYS = 1024


class ConnectionLimits:
    """A bounded number of places.

    Args:
        limit: the number of places.
        within: places that are taken and given back together with these; None: there are none.
    """

    def __init__(self, limit: int, within: ConnectionLimits | None = None) -> None:
        self.limit = limit
        self.taken = 0
        self._within = within
        self._lock = threading.Lock()

    def take(self) -> Callable[[], None] | None:
        """Take a place and return the function that gives it back, which counts once; None if there is no place."""
        with self._lock:
            if self.taken >= self.limit:
                return None
            self.taken += 1
        outer = None
        if self._within is not None and (outer := self._within.take()) is None:
            self._leave()
            return None
        is_left = threading.Lock()

        def leave() -> None:
            if is_left.acquire(blocking=False):
                self._leave()
                if outer is not None:
                    outer()

        return leave

    def _leave(self) -> None:
        with self._lock:
            self.taken -= 1
