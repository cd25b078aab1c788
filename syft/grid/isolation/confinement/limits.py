"""Limits on a confined process: memory and files for its lifetime, CPU and wall time for each call."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path

if sys.platform != "win32":
    import resource

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """The resources that a confined process may use.

    Attributes:
        memory: bytes of address space beyond the size at the fork. This is RLIMIT_AS, which counts every mapping:
            heap, thread stacks, and mapped files whether or not their pages were touched. Add the size of data files
            that the process will map. An allocation beyond it fails inside the call, and the process survives.
        cpu_seconds: CPU time of one call, over all threads.
        wall_seconds: elapsed time of one call.
        processes: further processes it may start; must be 0. seccomp denies fork. RLIMIT_NPROC is not used: it
            counts the threads of all processes of a user, and it does not bind root.
        open_files: highest number of open file descriptors.
    """

    memory: int = 4096 * _MIB
    cpu_seconds: float = 600.0
    wall_seconds: float = 600.0
    processes: int = 0
    open_files: int = 256

    def __post_init__(self) -> None:
        for name in ("memory", "cpu_seconds", "wall_seconds", "open_files"):
            if getattr(self, name) <= 0:
                raise ValueError(f"Limits.{name} must be positive, got {getattr(self, name)}")
        if self.processes:
            raise ValueError(f"Limits.processes must be 0, got {self.processes}: confined processes cannot fork")


def apply_limits(limits: Limits, size: int | None) -> list[str]:
    """Set the resource limits of this process, and return the names of those that were set.

    Hard limits are set too, so that the process cannot raise them again.

    Args:
        limits: the limits.
        size: the size of its address space in bytes, see `address_space`; None: memory is not limited.
    """
    wanted = [
        ("core dumps", resource.RLIMIT_CORE, 0),
        # No writing to files; sockets, pipes and shared mappings are not affected.
        ("file size", resource.RLIMIT_FSIZE, 0),
        ("open files", resource.RLIMIT_NOFILE, limits.open_files),
    ]
    if size is not None:
        wanted.append(("memory", resource.RLIMIT_AS, size + limits.memory))
    active = []
    for name, which, value in wanted:
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(which, (value, value))
            active.append(f"limit on {name}")
    return active


def address_space() -> int | None:
    """Return the size of this process's address space in bytes, or None where /proc is missing."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return pages * resource.getpagesize()
