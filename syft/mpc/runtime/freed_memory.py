"""Settings of the allocator: freed memory stays with the process, so that the next run can use it again.

A run makes and drops tensors of the same sizes again and again. The allocator of Linux (glibc) returns the top of
its heap to the system after each large one, and gets it again page by page: 8 to 33% of a convolutional network's run.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys

# glibc's numbers of the options.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# Freed bytes at the top of the heap that stay with the process.
KEPT = 128 << 20
# Larger tensors get memory of their own, which is returned to the system with them.
LARGE = 32 << 20
# If one of these is set, the user has chosen other settings.
_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES", "LD_PRELOAD")


@functools.cache
def keep_freed() -> None:
    """Let this process keep up to `KEPT` freed bytes; only the first call has an effect, and only with glibc."""
    if not sys.platform.startswith("linux") or any(name in os.environ for name in _VARIABLES):
        return
    with contextlib.suppress(AttributeError, OSError):  # another C library
        allocator = ctypes.CDLL(None)
        allocator.mallopt(_MMAP_THRESHOLD, LARGE)
        allocator.mallopt(_TRIM_THRESHOLD, KEPT)
