"""MemoryLimit: refuse allocations before the system kills the process for lack of memory.

Quotas count the objects of users. Memory of autograd graphs and of temporary values is not in them, but it is in the
resident memory of the process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from pathlib import Path

from syft.exceptions import QuotaExceededError

# The default limit, as a fraction of the machine's memory or of the cgroup's limit.
_DEFAULT_FRACTION = 0.9
# Seconds between measurements of the memory, and between calls of malloc_trim.
_MEASURE_SECONDS, _TRIM_SECONDS = 0.02, 1.0


class MemoryLimit:
    """The maximum memory of a process.

    Args:
        limit: bytes; None: 90% of the machine's memory or of the cgroup's limit.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = _default() if limit is None else limit
        self._lock = threading.Lock()
        self._measured = self._trimmed = 0.0
        self._used = 0

    def check(self, more: int = 0) -> None:
        """Raise QuotaExceededError if the process exceeds the limit, or would with `more` bytes."""
        if self._used_now() + more <= self.limit:
            return
        self._trim()
        if (total := self._used_now() + more) > self.limit:
            raise QuotaExceededError(
                f"This node is out of memory: it would use {total >> 20} MiB of {self.limit >> 20} MiB "
                "(--max-memory). Nothing was stored. Release objects, end sessions with large autograd graphs, or try "
                "again later."
            )

    def room(self) -> int:
        """Return the bytes that the process may still allocate."""
        left = self.limit - self._used_now()
        if left <= 0:
            self._trim()
            left = self.limit - self._used_now()
        return max(0, left)

    def _used_now(self) -> int:
        now = time.monotonic()
        with self._lock:
            if now - self._measured > _MEASURE_SECONDS:
                self._measured, self._used = now, used()
            return self._used

    def _trim(self) -> None:
        """Return freed memory from the C library to the system."""
        now = time.monotonic()
        with self._lock:
            if now - self._trimmed < _TRIM_SECONDS:
                return
            self._trimmed, self._measured = now, 0.0
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)


def used() -> int:
    """Return the resident memory of this process in bytes; 0 if unknown."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _default() -> int:
    found = []
    with contextlib.suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with contextlib.suppress(OSError, ValueError):
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))  # "max" raises ValueError
    return int(_DEFAULT_FRACTION * min(found)) if found else 1 << 62
