"""ConfinedProcess: the supervisor's handle on a confined process."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading

from syft.grid.isolation.confinement.limits import Limits
from syft.grid.isolation.processes.exit_status import ExitReason, Killed, explain


class ConfinedProcess:
    """A handle on a confined process. All methods can be called from any thread.

    Attributes:
        pid: its process id.
        pidfd: a descriptor that refers to this process and never to a later one with the same id, or None where the
            system has none. It polls as readable once the process has ended. Belongs to this object.
        role: its role.
        limits: its limits.
        confinement: names of the measures that confine it, see `confinement.confine`.
    """

    def __init__(self, pid: int, pidfd: int | None, role: str, limits: Limits) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self.role = role
        self.limits = limits
        self.confinement: list[str] = []
        self._lock = threading.Lock()
        self._killed: Killed | None = None
        self._reason: ExitReason | None = None
        self._has_ended = threading.Event()

    def is_alive(self) -> bool:
        """Return whether the process runs."""
        if self._has_ended.is_set():
            return False
        with self._lock:
            if self.pidfd is None:
                return not self._has_ended.is_set()
            poll = select.poll()
            poll.register(self.pidfd, select.POLLIN)
            return not poll.poll(0)

    def kill(self, text: str = "the node ended the process", limit: str | None = None) -> None:
        """Kill the process; does nothing if it has ended.

        Args:
            text: the reason, which `end_reason` will give.
            limit: name of the exceeded limit, if that is the reason.
        """
        with self._lock:
            if self._has_ended.is_set():
                return
            if self._killed is None:
                self._killed = Killed(text, limit)
            with contextlib.suppress(ProcessLookupError):
                if self.pidfd is not None:
                    signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
                else:
                    os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> ExitReason:
        """Wait for the end of the process.

        Raises:
            TimeoutError: if it still runs after `timeout` seconds.
        """
        if not self._has_ended.wait(timeout):
            raise TimeoutError(f"process {self.pid} ({self.role}) still runs after {timeout:g} s")
        assert self._reason is not None  # noqa: S101
        return self._reason

    def end_reason(self) -> str:
        """Return how the process ended, in one sentence."""
        reason = self._reason
        return "the process runs" if reason is None else reason.text

    def _set_ended(self, code: int | None, number: int | None, cpu: float = 0.0, peak: int = 0) -> None:
        with self._lock:
            if self._has_ended.is_set():
                return
            self._reason = explain(code, number, self.limits, self._killed, cpu, peak)
            if self.pidfd is not None:
                os.close(self.pidfd)
                self.pidfd = None
            self._has_ended.set()

    def __repr__(self) -> str:
        return f"<ConfinedProcess {self.pid}, {self.role}, {self.end_reason()}>"
