"""MemoryLimit: a node that runs out of memory refuses to make more, instead of being ended by the system.

Quotas count what users hold. What autograd keeps for a backward pass, and what calls take on their way, is not in them;
the memory of the process is.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from pathlib import Path

from syft.exceptions import QuotaExceededError

# The part of the machine's memory, or of what the process may have of it, that is used if nothing else is said.
_PART = 0.9
# Seconds for which what was found out is believed; and after which memory that was freed is given back once more.
_FRESH, _TRIMMED = 0.02, 1.0


class MemoryLimit:
    """How much memory a process may take.

    Args:
        limit: bytes; None: most of what the machine has, or the process may have.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = _default() if limit is None else limit
        self._lock = threading.Lock()
        self._looked = self._trimmed = 0.0
        self._used = 0

    def check(self, more: int = 0) -> None:
        """Raise QuotaExceededError if the process has taken what it may, or would with some more bytes."""
        if self._used_now() + more <= self.limit:
            return
        self._give_back()
        if (taken := self._used_now() + more) > self.limit:
            raise QuotaExceededError(
                f"This node has no memory left: it would take {taken >> 20} MiB, and may take {self.limit >> 20} "
                "(--max-memory). Nothing was kept: release what you hold, end sessions with long graphs of autograd, "
                "or try again later."
            )

    def room(self) -> int:
        """Return how many bytes the process may still take."""
        left = self.limit - self._used_now()
        if left <= 0:
            self._give_back()
            left = self.limit - self._used_now()
        return max(0, left)

    def _used_now(self) -> int:
        now = time.monotonic()
        with self._lock:
            if now - self._looked > _FRESH:
                self._looked, self._used = now, used()
            return self._used

    def _give_back(self) -> None:
        """Have the C library give freed memory back to the system, which it keeps for later otherwise."""
        now = time.monotonic()
        with self._lock:
            if now - self._trimmed < _TRIMMED:
                return
            self._trimmed, self._looked = now, 0.0
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)


def used() -> int:
    """Return how many bytes of memory this process takes; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _default() -> int:
    found = []
    with contextlib.suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with contextlib.suppress(OSError, ValueError):
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))  # "max" is no number
    return int(_PART * min(found)) if found else 1 << 62
