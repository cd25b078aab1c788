"""RoundOutcome: which clients of a round were counted or failed, and why."""

from __future__ import annotations

import math
import re
from collections.abc import Container
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
# Maximum length of a client's reason in an error: long enough for the commands that some end with.
MAX_REASON = 1000
# Errors that repeat if the client is called again; others may be temporary.
_REFUSALS = (TrainingError, NotPermittedError, ObjectNotFoundError, UnsupportedOperationError, IndexError, TypeError)
_PASSING = (StateLostError, ClientBusyError)


class RoundOutcome:
    """The outcome of a round for its clients.

    Args:
        members: the clients by name.

    Attributes:
        asked: number of clients.
        counted: the names of the clients whose results count.
        failed: the reasons of the others, by name.
        lost: those of them that may succeed if called again.
        budget_errors: those of them that refused because of a privacy budget -> error text.
    """

    def __init__(self, members: dict[str, Any]) -> None:
        self.asked = len(members)
        self.counted: list[str] = []
        self.failed: dict[str, str] = {}
        self.lost: set[str] = set()
        self.budget_errors: dict[str, str] = {}
        self._loss = 0.0
        self._samples = 0

    def leave_out(self, members: dict[str, Any], kept: Any, reasons: dict[str, str]) -> None:
        """Record clients that were lost before training."""
        for name in members:
            if name not in kept:
                self.failed[name] = str(reasons.get(name, "did not take part"))

    def fail(self, name: str, reason: str, error: Exception | None = None) -> None:
        """Record that a client failed; without an error it may succeed another time."""
        self.failed[name] = reason
        if isinstance(error, BudgetExceededError):
            self.budget_errors[name] = str(error)
        if not isinstance(error, _REFUSALS) or isinstance(error, _PASSING):
            self.lost.add(name)

    def count(self, name: str, result: dict[str, Any]) -> None:
        """Record a result that counts."""
        self.counted.append(name)
        samples, metrics = result.get("samples"), result.get("metrics")
        loss = metrics.get("loss") if isinstance(metrics, dict) else None
        if type(loss) is float and math.isfinite(loss) and type(samples) is int and 0 <= samples < MAX_SAMPLES:
            self._loss += loss * samples
            self._samples += samples

    def refuse(self, reasons: dict[str, str]) -> None:
        """Record that results do not count after all."""
        for name, why in reasons.items():
            self.counted.remove(name)
            self.failed[name] = why

    def loss(self) -> float | None:
        """Return the mean of the reported losses."""
        return self._loss / self._samples if self._samples else None

    def first_reason(self, without: Container[str] = ()) -> str:
        """Return why the first client failed, other than those in `without`."""
        found = ((name, why) for name, why in self.failed.items() if name not in without)
        return next((f"Client {name!r}: {shortened(why, MAX_REASON)}" for name, why in found), "")


class RoundFailedError(Exception):
    """A round that can't count, with the outcome of its clients if too few of them could be counted."""

    def __init__(self, text: str, answers: RoundOutcome | None = None) -> None:
        super().__init__(text)
        self.answers = answers


def error_text(error: BaseException) -> str:
    """Return the type of an error and its text, if it has one."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def shortened(text: str, most: int) -> str:
    """Return a text of limited length, cut after a whole sentence if possible."""
    if len(text) <= most:
        return text
    kept = text[: most - 2]
    ends = [match.end() for match in re.finditer(r"[.!?:;](?=\s)", kept)]
    if ends and ends[-1] > most // 3:
        return f"{kept[: ends[-1]]} …"
    return f"{kept.rpartition(' ')[0] or kept} …"
