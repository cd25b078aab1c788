"""Answers: what became of the clients of a round."""

from __future__ import annotations

import contextlib
import math
from typing import Any

MAX_SAMPLES = 2**53


class Answers:
    """What became of the clients of a round.

    Args:
        members: the clients by name.

    Attributes:
        asked: how many there are.
        counted: the names of those whose answers count.
        failed: why the others do not count, by name.
    """

    def __init__(self, members: dict[str, Any]) -> None:
        self.asked = len(members)
        self.counted: list[str] = []
        self.failed: dict[str, str] = {}
        self._loss = 0.0
        self._samples = 0

    def leave_out(self, members: dict[str, Any], kept: Any, reasons: dict[str, str]) -> None:
        """Take note of clients that were lost before they were asked to train."""
        for name in members:
            if name not in kept:
                self.failed[name] = str(reasons.get(name, "it did not take part"))

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
            return f"Client {name!r}: {reason[:300]}"
        return ""
