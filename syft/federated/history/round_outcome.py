"""RoundOutcome: what became of the clients of a round."""

from __future__ import annotations

import contextlib
import math
import re
from typing import Any

from syft.exceptions import (
    BudgetExceededError,
    ClientBusyError,
    NotPermittedError,
    ObjectNotFoundError,
    StateLostError,
    TrainingError,
    UnsupportedOperationError,
)

MAX_SAMPLES = 2**53
# How much of a client's reason an error tells: whole commands, which some of them end with.
MAX_REASON = 1000
# What a client says no to, it says no to again; anything else may be a matter of time.
_REFUSALS = (TrainingError, NotPermittedError, ObjectNotFoundError, UnsupportedOperationError, IndexError, TypeError)
_PASSING = (StateLostError, ClientBusyError)


class RoundOutcome:
    """What became of the clients of a round.

    Args:
        members: the clients by name.

    Attributes:
        asked: how many there are.
        counted: the names of those whose answers count.
        failed: why the others do not count, by name.
        lost: who of them may do better when it is asked again.
        broke: who of them refused because a privacy budget does not allow it, and in which words.
    """

    def __init__(self, members: dict[str, Any]) -> None:
        self.asked = len(members)
        self.counted: list[str] = []
        self.failed: dict[str, str] = {}
        self.lost: set[str] = set()
        self.broke: dict[str, str] = {}
        self._loss = 0.0
        self._samples = 0

    def leave_out(self, members: dict[str, Any], kept: Any, reasons: dict[str, str]) -> None:
        """Take note of clients that were lost before they were asked to train."""
        for name in members:
            if name not in kept:
                self.failed[name] = str(reasons.get(name, "it did not take part"))

    def fail(self, name: str, reason: str, error: Exception | None = None) -> None:
        """Take note that a client failed; without its own error it is one that may do better another time."""
        self.failed[name] = reason
        if isinstance(error, BudgetExceededError):
            self.broke[name] = str(error)
        if not isinstance(error, _REFUSALS) or isinstance(error, _PASSING):
            self.lost.add(name)

    def take(self, name: str, result: dict[str, Any]) -> None:
        """Take note of an answer that counts."""
        self.counted.append(name)
        samples, metrics = result.get("samples"), result.get("metrics")
        loss = metrics.get("loss") if isinstance(metrics, dict) else None
        if type(loss) is float and math.isfinite(loss) and type(samples) is int and 0 <= samples < MAX_SAMPLES:
            self._loss += loss * samples
            self._samples += samples

    def refuse(self, reasons: dict[str, str]) -> None:
        """Take note that answers do not count after all."""
        for name, why in reasons.items():
            self.counted.remove(name)
            self.failed[name] = why

    def loss(self) -> float | None:
        """Return the mean loss of those who told it."""
        return self._loss / self._samples if self._samples else None

    def first_reason(self) -> str:
        """Return why the first client failed."""
        with contextlib.suppress(StopIteration):
            name, reason = next(iter(self.failed.items()))
            return f"Client {name!r}: {shortened(reason, MAX_REASON)}"
        return ""


class RoundFailedError(Exception):
    """A round that can't count.

    Args:
        text: why.
        answers: what became of its clients, if it is that too few of them could be counted.
    """

    def __init__(self, text: str, answers: RoundOutcome | None = None) -> None:
        super().__init__(text)
        self.answers = answers


def shortened(text: str, most: int) -> str:
    """Return a text that is not longer than so many characters; one that is ends with a whole sentence, if it can."""
    if len(text) <= most:
        return text
    kept = text[: most - 2]
    ends = [match.end() for match in re.finditer(r"[.!?:;](?=\s)", kept)]
    if ends and ends[-1] > most // 3:
        return f"{kept[: ends[-1]]} …"
    return f"{kept.rpartition(' ')[0] or kept} …"
