"""The progress bar of nodes that start: shown on a terminal or in a notebook, and only if the start takes long."""

from __future__ import annotations

import html
import importlib
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

# Seconds after which a start takes long.
_LONG = 2.0
# Seconds between two updates.
_PACE = 0.25
_WIDTH = 24


class StartProgress:
    """Shows how many nodes are ready; the bar disappears at the end.

    Args:
        names: the ids of the nodes.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._shown_at = time.monotonic() + _LONG - _PACE
        self._began = time.monotonic()
        self._line: Any = None

    def __enter__(self) -> StartProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._line is not None:
            self._line("")

    def show(self, waiting: Sequence[str]) -> None:
        """Show the nodes that are not ready yet."""
        now = time.monotonic()
        if now - self._shown_at < _PACE:
            return
        self._shown_at = now
        if self._line is None:
            self._line = _notebook_line() if "ipykernel" in sys.modules else _terminal_line()
        ready = len(self._names) - len(waiting)
        filled = _WIDTH * ready // len(self._names)
        bar = "█" * filled + "░" * (_WIDTH - filled)
        self._line(f"{bar} {ready}/{len(self._names)} nodes, {now - self._began:.0f} s: {', '.join(waiting)}")


def _notebook_line() -> Any:
    shown: Any = importlib.import_module("IPython.display")
    handle = shown.display(_bundle(""), raw=True, display_id=True)
    return lambda text: handle and handle.update(_bundle(text), raw=True)


def _bundle(text: str) -> dict[str, str]:
    return {"text/html": f"<pre>{html.escape(text)}</pre>" if text else "", "text/plain": text}


def _terminal_line() -> Any:
    if not sys.stderr.isatty():
        return lambda text: None

    def write(text: str) -> None:
        sys.stderr.write(f"\r\x1b[2K{text[:79]}")
        sys.stderr.flush()

    return write
