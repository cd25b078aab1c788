"""How a confined process ended."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from syft.grid.isolation.confinement.limits import CLOCK_SIGNALS, Limits

# Exit codes of a confined process, besides those its entry point chooses.
FAILED, OUT_OF_MEMORY = 70, 71


@dataclass(frozen=True, slots=True)
class ExitReason:
    """How a confined process ended.

    A process can choose how it ends. The exit reason of a vault must not reach its user.

    Attributes:
        code: exit code, or None if a signal ended it or nothing is known.
        signal: number of the signal that ended it, or None.
        limit: name of the limit in `Limits` that was exceeded, or None.
        text: one sentence for display.
        cpu_seconds: CPU time that it used in total.
        peak_memory: largest resident size in bytes, including shared pages.
    """

    code: int | None
    signal: int | None
    limit: str | None
    text: str
    cpu_seconds: float = 0.0
    peak_memory: int = 0


@dataclass(frozen=True, slots=True)
class Killed:
    """Why the supervisor killed a process.

    Attributes:
        text: one sentence for display.
        limit: name of the limit that was exceeded, or None.
    """

    text: str
    limit: str | None = None


def explain(
    code: int | None, number: int | None, limits: Limits, killed: Killed | None, cpu: float, peak: int
) -> ExitReason:
    """Return how a process ended.

    Args:
        code: its exit code, if it exited.
        number: the signal that ended it, if one did.
        limits: its limits.
        killed: why the supervisor killed it, if it did.
        cpu: CPU time that it used, in seconds.
        peak: its largest resident size in bytes.
    """
    limit, text = None, ""
    if number == signal.SIGKILL and killed is not None:
        limit, text = killed.limit, killed.text
    elif number is not None:
        limit = CLOCK_SIGNALS.get(signal.Signals(number)) if number in set(signal.Signals) else None
        text = _signal_text(number, limit, limits)
    elif code == OUT_OF_MEMORY:
        limit, text = "memory", f"the process ran out of memory (limit memory, {limits.memory} bytes)"
    elif code == FAILED:
        text = "the process ended with an error"
    elif code is not None:
        text = f"the process ended with exit code {code}"
    else:
        text = killed.text if killed is not None else "the process ended for an unknown reason"
    return ExitReason(code, number, limit, text, cpu, peak)


def _signal_text(number: int, limit: str | None, limits: Limits) -> str:
    if limit is not None:
        return f"a call took longer than {getattr(limits, limit):g} s (limit {limit})"
    if number == signal.SIGKILL:
        return "the process was killed from outside, possibly because the machine ran out of memory"
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return f"the process crashed with {name}"
