"""LiveFeed: the state of a run for its page, shared by the thread of the run and those that serve the page."""

from __future__ import annotations

import dataclasses
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping

from syft.federated.history.page import RoundInProgress, RunView, document, sections
from syft.federated.history.records import History
from syft.federated.history.round_outcome import RoundOutcome

# Seconds between two updates of a page: at least, and at most (its clock shows seconds).
_LEAST, _MOST = 0.3, 1.0


class LiveFeed:
    """The content of the page of one run, at any time.

    Args:
        view: the properties of the run.

    Attributes:
        token: the secret part of the page's address.
        closed: set when the page is no longer served.
    """

    def __init__(self, view: RunView) -> None:
        self.token = secrets.token_urlsafe(24)
        self.closed = threading.Event()
        self._view, self._history = view, History()
        self._began = time.monotonic()
        self._changed = threading.Condition()
        self._round: tuple[int, int, RoundOutcome] | None = None
        self._epsilons: Mapping[str, float] | None = None
        # The sections that depend on complete rounds alone, for the last of them.
        self._rendered: tuple[object, dict[str, str]] = (None, {})

    # --- the run ------------------------------------------------------------------------------------------------

    def start(self, history: History) -> None:
        """Show the history of the run, to which it appends."""
        self._history = history
        self._notify()

    def begin(self, number: int, attempt: int, outcome: RoundOutcome) -> None:
        """Show a round in progress. Its outcome changes as clients answer."""
        self._round = number, attempt, outcome
        self._notify()

    def complete(self, epsilons: Mapping[str, float]) -> None:
        """Show a complete round."""
        self._round, self._epsilons = None, dict(epsilons)
        self._notify()

    def end(self, view: RunView) -> None:
        """Show the end of the run."""
        self._round = None
        self._view = dataclasses.replace(view, elapsed=time.monotonic() - self._began)
        self._notify()

    def close(self) -> None:
        """Let the threads that serve the page end."""
        self.closed.set()
        self._notify()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    # --- the page -----------------------------------------------------------------------------------------------

    @property
    def view(self) -> RunView:
        """The properties of the run now."""
        view, now = self._view, self._round
        if not view.is_live:
            return view
        current = None
        if now is not None:
            number, attempt, outcome = now
            current = RoundInProgress(number, attempt, outcome.asked, len(outcome.counted), len(outcome.failed))
        elapsed = time.monotonic() - self._began
        return dataclasses.replace(view, elapsed=elapsed, current=current, epsilons=self._epsilons)

    def _snapshot(self) -> History:
        return self._history[: len(self._history)]

    def document(self) -> str:
        """Return the whole page."""
        return document(self._snapshot(), self.view)

    def follow(self, send: Callable[[str], None]) -> None:
        """Send the sections that changed, as server-sent events, until the run or the page ends."""
        sent: dict[str, str] = {}
        while True:
            is_closed, view = self.closed.is_set(), self.view
            parts = self._parts(view)
            changed = {name: text for name, text in parts.items() if sent.get(name) != text}
            if changed:
                send(f"data: {json.dumps(changed)}\n\n")
                sent = parts
            if not view.is_live:
                send("event: end\ndata: end\n\n")
            if is_closed or not view.is_live:
                return
            self.closed.wait(_LEAST)
            with self._changed:
                self._changed.wait(_MOST - _LEAST)

    def _parts(self, view: RunView) -> dict[str, str]:
        history = self._snapshot()
        key, known = self._rendered
        last = history[-1] if len(history) else None
        if not known or key != (last, view.is_live):
            known = sections(history, view)
            self._rendered = (last, view.is_live), known
            return known
        return sections(history, view, known)
