"""The progress bar of a run: rounds, loss, measurements, and traffic."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from syft.federated.history.records import RoundRecord, size_text


class RunProgress:
    """A progress bar; if `shown` is None, it is shown on a terminal or in a notebook only."""

    def __init__(self, total: int, done: int, shown: bool | None) -> None:
        self._bar: Any = None
        if shown or (shown is None and (sys.stderr.isatty() or "ipykernel" in sys.modules)):
            self._bar = _make_bar(total, done)

    def __enter__(self) -> RunProgress:
        if self._bar is not None:
            self._bar[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar[0].stop()

    def show(self, record: RoundRecord) -> None:
        """Show a completed round."""
        if self._bar is None:
            return
        bar, task = self._bar
        figures = {**({} if record.loss is None else {"loss": record.loss}), **record.metrics}
        if record.epsilon is not None:
            figures["epsilon" if record.neighbours is None else f"epsilon ({record.neighbours})"] = record.epsilon
        text = "  ".join(f"{name} {value:.3g}" for name, value in figures.items())
        sent = size_text(record.bytes_out + record.bytes_in)
        bar.update(task, advance=1, figures=f"{text}  {record.answered}/{record.asked} clients  {sent}")


def _make_bar(total: int, done: int) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    # On a narrow terminal the figures are cut, not the progress.
    rounds = Column(no_wrap=True, min_width=2 * len(str(total)) + 1)
    bar = Progress(
        TextColumn("round", table_column=Column(no_wrap=True, min_width=5)),
        MofNCompleteColumn(table_column=rounds),
        BarColumn(bar_width=12),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[figures]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
        console=Console(stderr=True),
    )
    return bar, bar.add_task("rounds", total=total, completed=done, figures="")
