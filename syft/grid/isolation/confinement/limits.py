"""Limits on a confined process: memory, files and threads for its lifetime, CPU and wall time for each call."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

if sys.platform != "win32":
    import resource

_MIB = 1 << 20
# Signals that end a process whose CallClock has expired, and the limit of each.
CLOCK_SIGNALS = {} if sys.platform == "win32" else {signal.SIGPROF: "cpu_seconds", signal.SIGALRM: "wall_seconds"}


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
        file_size: bytes a file may grow to by writing; 0 forbids writing to files. Sockets, pipes and shared
            mappings are not affected.
    """

    memory: int = 4096 * _MIB
    cpu_seconds: float = 600.0
    wall_seconds: float = 600.0
    processes: int = 0
    open_files: int = 256
    file_size: int = 0

    def __post_init__(self) -> None:
        for name in ("memory", "cpu_seconds", "wall_seconds", "open_files"):
            if getattr(self, name) <= 0:
                raise ValueError(f"Limits.{name} must be positive, got {getattr(self, name)}")
        if self.file_size < 0:
            raise ValueError(f"Limits.file_size must not be negative, got {self.file_size}")
        if self.processes:
            raise ValueError(f"Limits.processes must be 0, got {self.processes}: confined processes cannot fork")

    def to_plain(self) -> dict[str, Any]:
        """Return the limits as a dict of numbers."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Limits:
        """Build limits from a dict made by `to_plain`."""
        return cls(**{field.name: plain[field.name] for field in fields(cls)})


def apply_limits(limits: Limits, size: int | None) -> list[str]:
    """Set the resource limits of this process, and return the names of those that were set.

    Hard limits are set too, so that the process cannot raise them again.

    Args:
        limits: the limits.
        size: the size of its address space in bytes, see `address_space`; None: memory is not limited.
    """
    wanted = [
        ("core dumps", "RLIMIT_CORE", 0),
        ("file size", "RLIMIT_FSIZE", limits.file_size),
        ("open files", "RLIMIT_NOFILE", limits.open_files),
    ]
    if size is not None:
        wanted.append(("memory", "RLIMIT_AS", size + limits.memory))
    active = []
    for name, constant, value in wanted:
        which = getattr(resource, constant, None)
        if which is None:
            continue
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(which, (value, value))
            active.append(f"limit on {name}")
    return active


def address_space(pid: int | str = "self") -> int | None:
    """Return the size of a process's address space in bytes, or None where /proc is missing."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return pages * resource.getpagesize()


class CallClock:
    """Ends this process when a call takes too long.

    The timers' signals keep their default action, so they also end a call that never returns to Python. A process
    that runs hostile machine code can disarm them; the supervisor's `Watchdog` does not depend on them.

    Args:
        limits: the limits of this process.
    """

    __slots__ = ("_cpu", "_wall")

    def __init__(self, limits: Limits) -> None:
        self._cpu = limits.cpu_seconds
        self._wall = limits.wall_seconds
        for number in CLOCK_SIGNALS:
            signal.signal(number, signal.SIG_DFL)

    def start(self) -> None:
        """Arm the timers."""
        signal.setitimer(signal.ITIMER_PROF, self._cpu)
        signal.setitimer(signal.ITIMER_REAL, self._wall)

    def stop(self) -> None:
        """Disarm the timers."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Limit the time of the block."""
        self.start()
        try:
            yield
        finally:
            self.stop()
