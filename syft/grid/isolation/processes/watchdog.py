"""Watchdog: the supervisor's own clock for calls. It does not rely on anything inside the confined process."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from syft.grid.isolation.processes.child import ConfinedProcess

_TICK = 0.25


@dataclass(slots=True)
class _TimedCall:
    child: ConfinedProcess
    name: Callable[[], str]
    began: float
    cpu_before: float | None = None
    work: Callable[[], WorkCount] | None = None
    done: int = 0


class WorkCount(NamedTuple):
    """The orders of a process.

    Attributes:
        given: the number of orders sent to it.
        done: the number of completed orders, as the process reports it.
    """

    given: int
    done: int


class Watchdog:
    """Kills confined processes whose call exceeds the limits on time; one thread for all of them.

    Limits are checked a few times a second, so that `begin` and `end` cost about a microsecond. CPU time is measured
    from the first check after the start of the call.
    """

    def __init__(self) -> None:
        self._calls: dict[int, _TimedCall] = {}
        self._lock = threading.Lock()
        self._has_calls = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._watch, name="isolation-watchdog", daemon=True)
        self._thread.start()

    def begin(self, child: ConfinedProcess, name: Callable[[], str]) -> _TimedCall:
        """Start the clock for a call of a child. A child may run several calls at once.

        Returns:
            The clock, for `end`.
        """
        call = _TimedCall(child, name, time.monotonic())
        with self._lock:
            self._calls[id(call)] = call
        if not self._has_calls.is_set():
            self._has_calls.set()
        return call

    def keep(self, child: ConfinedProcess, name: Callable[[], str], work: Callable[[], WorkCount]) -> None:
        """Limit the time of each order of a child that sends no answers, until it ends.

        The child itself reports the number of completed orders. It gains nothing by a false report: each order adds at
        most one limit of CPU time, and without orders the limit is not renewed.

        Args:
            child: the process.
            name: returns the name of the current call, for the reason given if it is killed.
            work: returns the orders of the child.
        """
        call = self.begin(child, name)
        call.work = work

    def end(self, call: _TimedCall) -> None:
        """Stop a clock; does nothing if it was stopped before."""
        with self._lock:
            self._calls.pop(id(call), None)

    @contextlib.contextmanager
    def call(self, child: ConfinedProcess, name: Callable[[], str]) -> Iterator[None]:
        """Limit the time of the call that the block waits for."""
        call = self.begin(child, name)
        try:
            yield
        finally:
            self.end(call)

    def close(self) -> None:
        """Stop watching."""
        self._is_closed = True
        self._has_calls.set()
        self._thread.join(5)

    def _watch(self) -> None:
        while not self._is_closed:
            with self._lock:
                calls = list(self._calls.values())
                if not calls:
                    self._has_calls.clear()
            if not calls:
                self._has_calls.wait()
                continue
            now = time.monotonic()
            for call in calls:
                if self._check(call, now):
                    self.end(call)
            time.sleep(_TICK)

    def _check(self, call: _TimedCall, now: float) -> bool:
        """Kill the child of a call that exceeds a limit, and return whether the call can be dropped."""
        child, limits = call.child, call.child.limits
        if not child.is_alive():
            return True
        is_busy = call.work is None or self._has_work(call, call.work(), now)
        if is_busy and now - call.began > limits.wall_seconds:
            return self._kill(call, f"took longer than {limits.wall_seconds:g} s (limit wall_seconds)")
        used = cpu_seconds(child.pid)
        if used is None:
            return False
        if call.cpu_before is None:
            call.cpu_before = used
        if used - call.cpu_before > limits.cpu_seconds:
            return self._kill(call, f"used more CPU time than {limits.cpu_seconds:g} s (limit cpu_seconds)")
        return False

    def _has_work(self, call: _TimedCall, work: WorkCount, now: float) -> bool:
        """Start the clock of the next order after a completed one, and return whether there is a next one."""
        done = min(work.done, work.given)
        if done > call.done:
            call.done, call.began, call.cpu_before = done, now, None
        if done == work.given:
            call.began = now
        return done < work.given

    def _kill(self, call: _TimedCall, why: str) -> bool:
        with self._lock:
            if self._calls.get(id(call)) is not call:
                return False  # the call ended meanwhile
        call.child.kill(f"the call {call.name()} {why}")
        return True


def cpu_seconds(pid: int) -> float | None:
    """Return the CPU time that a process has used, or None if it is gone or the system has no /proc."""
    try:
        # The program name is in parentheses and may contain any character.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
