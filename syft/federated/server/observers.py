"""RunObservers: everything that follows a run: progress bar, live page, loggers and the callback."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from syft.federated.history.page import RunView
from syft.federated.history.records import History
from syft.federated.history.round_outcome import RoundOutcome, shortened
from syft.federated.history.round_report import RoundReport, Stop
from syft.federated.live.run_page import RunPage
from syft.federated.loggers.run_logger import RunLogger, RunStart
from syft.federated.server.progress import RunProgress, is_notebook

if TYPE_CHECKING:
    from syft.federated.server.result import Result

LOGGER = logging.getLogger("syft.federated.server.engine")
# Number of rounds in a row after which a failing client is reported, and of clients and characters in the report.
_REPEATS, _NAMED, _REASON = 3, 3, 200

Callback = Callable[[RoundReport], Stop | None]


class RunObservers:
    """Follows one run.

    Args:
        progress: whether to show a progress bar; None to show it on a terminal or in a notebook.
        watch: whether to serve a live page.
        loggers: called in their order.
        on_round: called last, as it may end the run.
    """

    def __init__(
        self, progress: bool | None, watch: bool, loggers: Sequence[RunLogger], on_round: Callback | None
    ) -> None:
        self._progress, self._watch, self._loggers, self._on_round = progress, watch, loggers, on_round
        self._bar: RunProgress | None = None
        self._started: list[RunLogger] = []
        self._repeats = RepeatedFailures()
        self.page: RunPage | None = None
        self.view = RunView()

    def start(self, run: RunStart, history: History) -> None:
        """Prepare all observers; the run appends to `history`."""
        self.view = RunView(run.rounds, run.clients, run.strategy, is_live=True, budgets=run.budgets)
        if self._watch:
            self.page = RunPage(self.view)
            self.page.feed.start(history)
            self.page.announce(is_notebook())
        for logger in self._loggers:
            self._started.append(logger)
            logger.on_start(run)
        self._bar = RunProgress(run.rounds, len(run.history), self._progress).__enter__()

    def begin_round(self, number: int, attempt: int, outcome: RoundOutcome) -> None:
        """Show a round in progress."""
        if self.page is not None:
            self.page.feed.begin(number, attempt, outcome)

    def complete_round(self, report: RoundReport, budget_errors: Mapping[str, str]) -> Stop | None:
        """Pass a complete round to all observers; returns the signal to stop, if the callback gives it."""
        self._repeats.add(report, budget_errors)
        if self._bar is not None:
            self._bar.show(report.record)
        if self.page is not None:
            self.page.feed.complete(report.epsilons)
        for logger in self._loggers:
            logger.on_round(report)
        try:
            found = None if self._on_round is None else self._on_round(report)
        except Stop as stop:
            return stop
        if not (found is None or isinstance(found, Stop)):
            raise TypeError(
                f"on_round must return None or sy.federated.Stop('reason'), got a {type(found).__name__}. "
                "The run ended after this round."
            )
        return found

    def stop_progress(self) -> None:
        """Close the progress bar."""
        if self._bar is not None:
            self._bar.__exit__(None, None, None)

    def end(self, result: Result) -> None:
        """Close all observers, even if one fails; raises the first error."""
        if self.page is not None and result._view is not None:
            self.page.feed.end(result._view)
        errors = []
        for logger in self._started:
            try:
                logger.on_end(result)
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]


class RepeatedFailures:
    """Reports clients that fail in several rounds in a row, each once."""

    def __init__(self) -> None:
        self._rounds: dict[str, int] = {}
        self._reported: set[str] = set()

    def add(self, report: RoundReport, budget_errors: Mapping[str, str]) -> None:
        """Count the failures of a round. Spent budgets are not reported: the run ends by itself because of them."""
        for name in report.answered:
            self._rounds.pop(name, None)
        found = []
        for name, why in report.failed.items():
            self._rounds[name] = self._rounds.get(name, 0) + 1
            if self._rounds[name] >= _REPEATS and name not in self._reported and name not in budget_errors:
                found.append((name, why))
        if not found:
            return
        self._reported.update(name for name, _ in found)
        reasons = "; ".join(f"{name}: {shortened(' '.join(why.split()), _REASON)}" for name, why in found[:_NAMED])
        more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        LOGGER.warning(
            "%d client%s failed in %d rounds in a row, up to round %d: %s%s. Later failures are in the history only.",
            len(found), "s"[: len(found) != 1], _REPEATS, report.number, reasons, more,
        )  # fmt: skip
