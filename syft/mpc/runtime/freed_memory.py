"""Memory that was freed stays with the process for a while, so that the next run need not ask for it anew.

A run makes and drops tensors of the same sizes again and again. The allocator of Linux (glibc) gives the top of its
heap back to the system after each large one, and gets it again page by page: 8 to 33% of a convolutional network's run.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys

# glibc's numbers for what can be set.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# How many freed bytes at the top of the heap stay with the process.
KEPT = 128 << 20
# From this size on a tensor gets memory of its own, which goes back to the system with it.
LARGE = 32 << 20
# Who sets one of these has decided otherwise.
_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES", "LD_PRELOAD")


@functools.cache
def keep_freed() -> None:
    """Let this process keep up to `KEPT` bytes that were freed; the first call does it, where there is glibc."""
    if not sys.platform.startswith("linux") or any(name in os.environ for name in _VARIABLES):
        return
    with contextlib.suppress(AttributeError, OSError):  # another C library
        allocator = ctypes.CDLL(None)
        allocator.mallopt(_MMAP_THRESHOLD, LARGE)
        allocator.mallopt(_TRIM_THRESHOLD, KEPT)
