"""Confined processes as the supervisor sees them: their ends, and the call that each runs."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from syft.grid.isolation.confinement.limits import Limits
from syft.grid.isolation.processes.progress import ProgressPage

if TYPE_CHECKING:
    from syft.grid.isolation.processes.template import Template

# Exit codes of a confined process, besides those its entry point chooses.
FAILED, OUT_OF_MEMORY = 70, 71


class ConfinedProcess:
    """A handle on a confined process. All methods can be called from any thread.

    Attributes:
        pid: its process id.
        pidfd: a descriptor that refers to this process and never to a later one with the same id. Belongs to this
            object; None after the end.
        role: its role.
        limits: its limits.
        confinement: names of the measures that confine it, see `confinement.confine`.
        exit_code: exit code, negative for the number of the signal that ended it, or None if nothing is known.
    """

    def __init__(self, pid: int, pidfd: int, role: str, limits: Limits) -> None:
        self.pid = pid
        self.pidfd: int | None = pidfd
        self.role = role
        self.limits = limits
        self.confinement: list[str] = []
        self._lock = threading.Lock()
        self._killed = ""
        self.exit_code: int | None = None
        self._has_ended = threading.Event()

    def is_alive(self) -> bool:
        """Return whether the end of the process has not been reported."""
        return not self._has_ended.is_set()

    def kill(self, text: str = "the node ended the process") -> None:
        """Kill the process; does nothing if it has ended. `end_reason` will give the text."""
        with self._lock:
            if self.pidfd is not None:
                self._killed = self._killed or text
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> str:
        """Wait for the end of the process, and return how it ended.

        Raises:
            TimeoutError: if it still runs after `timeout` seconds.
        """
        if not self._has_ended.wait(timeout):
            raise TimeoutError(f"process {self.pid} ({self.role}) still runs after {timeout:g} s")
        return self.end_reason()

    def end_reason(self) -> str:
        """Return how the process ended, in one sentence. It can choose that, so users of a vault must not see it."""
        return "the process runs" if self.is_alive() else self._explain(self.exit_code)

    def set_ended(self, code: int | None) -> None:
        """Record the end of the process, with its exit code or the negative number of a signal."""
        with self._lock:
            if self.pidfd is None:
                return
            self.exit_code = code
            os.close(self.pidfd)
            self.pidfd = None
            self._has_ended.set()

    def _explain(self, code: int | None) -> str:
        if self._killed and code in (None, -signal.SIGKILL):
            return self._killed
        if code is None:
            return "the process ended for an unknown reason"
        if code == -signal.SIGKILL:
            return "the process was killed from outside, possibly because the machine ran out of memory"
        if code < 0:
            known = -code in set(signal.Signals)
            return f"the process crashed with {signal.Signals(-code).name if known else f'signal {-code}'}"
        if code == OUT_OF_MEMORY:
            return f"the process ran out of memory (limit memory, {self.limits.memory} bytes)"
        return "the process ended with an error" if code == FAILED else f"the process ended with exit code {code}"


class ProcessHandle:
    """A confined process with a progress page, which it gets as its last descriptor."""

    child: ConfinedProcess

    def __init__(self) -> None:
        self.progress = ProgressPage()

    def start(
        self, template: Template, role: str, fds: Sequence[int], settings: Mapping[str, Any], limits: Limits
    ) -> None:
        """Fork the process; see `Template.fork`."""
        try:
            self.child = template.fork(role, [*fds, self.progress.fileno()], settings, limits)
        finally:
            self.progress.close_descriptor()

    def end_reason(self) -> str:
        """Return how the process ended, after a short wait for its end, and the call that it ran."""
        with contextlib.suppress(TimeoutError):
            self.child.wait(2.0)
        call = self.progress.read()
        return f"{self.child.end_reason()}{f', while it ran {call}' if call else ''}"
