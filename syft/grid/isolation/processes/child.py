"""ConfinedProcess: the supervisor's handle on a confined process, and how such a process ended."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from dataclasses import dataclass

from syft.grid.isolation.confinement.limits import Limits

# Exit codes of a confined process, besides those its entry point chooses.
FAILED, OUT_OF_MEMORY = 70, 71


@dataclass(frozen=True, slots=True)
class ExitReason:
    """How a confined process ended.

    A process can choose how it ends. The exit reason of a vault must not reach its user.

    Attributes:
        code: exit code, negative for the number of the signal that ended it, or None if nothing is known.
        text: one sentence for display.
    """

    code: int | None
    text: str


class ConfinedProcess:
    """A handle on a confined process. All methods can be called from any thread.

    Attributes:
        pid: its process id.
        pidfd: a descriptor that refers to this process and never to a later one with the same id. Belongs to this
            object; None after the end.
        role: its role.
        limits: its limits.
        confinement: names of the measures that confine it, see `confinement.confine`.
    """

    def __init__(self, pid: int, pidfd: int, role: str, limits: Limits) -> None:
        self.pid = pid
        self.pidfd: int | None = pidfd
        self.role = role
        self.limits = limits
        self.confinement: list[str] = []
        self._lock = threading.Lock()
        self._killed = ""
        self._reason: ExitReason | None = None
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

    def set_ended(self, code: int | None) -> None:
        """Record the end of the process, with its exit code or the negative number of a signal."""
        with self._lock:
            if self.pidfd is None:
                return
            self._reason = ExitReason(code, self._explain(code))
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

    def __repr__(self) -> str:
        return f"<ConfinedProcess {self.pid}, {self.role}, {self.end_reason()}>"
