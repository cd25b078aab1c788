"""The progress bar of a run, on a terminal or in a notebook: rounds, loss, measurements, and traffic."""

from __future__ import annotations

import html
import sys
from types import TracebackType
from typing import Any

from syft.core.labels import printable
from syft.federated.history.records import RoundRecord
from syft.federated.history.text import size_text


class RunProgress:
    """A progress bar; if `shown` is None, it is shown on a terminal or in a notebook only."""

    def __init__(self, total: int, done: int, shown: bool | None) -> None:
        self._bar: _TerminalBar | _NotebookBar | None = None
        if is_notebook() and shown is not False:
            self._bar = _NotebookBar(total, done)
        elif shown or (shown is None and sys.stderr.isatty()):
            self._bar = _TerminalBar(total, done)

    def __enter__(self) -> RunProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, record: RoundRecord) -> None:
        """Show a completed round."""
        if self._bar is None:
            return
        figures = {**({} if record.loss is None else {"loss": record.loss}), **record.metrics}
        if record.epsilon is not None:
            figures["epsilon" if record.neighbours is None else f"epsilon ({record.neighbours})"] = record.epsilon
        text = "  ".join(f"{name} {value:.3g}" for name, value in figures.items())
        sent = size_text(record.bytes_out + record.bytes_in)
        self._bar.advance(f"{text}  {record.answered}/{record.asked} clients  {sent}")


def is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    if "ipykernel" not in sys.modules:
        return False
    shell: Any = sys.modules["IPython"].get_ipython()
    return getattr(shell, "kernel", None) is not None


class _TerminalBar:
    """A bar of rich, on stderr."""

    def __init__(self, total: int, done: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Column

        # On a narrow terminal the figures are cut, not the progress.
        rounds = Column(no_wrap=True, min_width=2 * len(str(total)) + 1)
        self._bar = Progress(
            TextColumn("round", table_column=Column(no_wrap=True, min_width=5)),
            MofNCompleteColumn(table_column=rounds),
            BarColumn(bar_width=12),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[figures]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task("rounds", total=total, completed=done, figures="")

    def start(self) -> None:
        self._bar.start()

    def stop(self) -> None:
        self._bar.stop()

    def advance(self, figures: str) -> None:
        self._bar.update(self._task, advance=1, figures=figures)


class _NotebookBar:
    """One output of a cell, replaced after each round. The bar of rich needs ipywidgets in a notebook."""

    def __init__(self, total: int, done: int) -> None:
        self._total, self._done, self._figures = total, done, ""
        self._handle: Any = None

    def start(self) -> None:
        display: Any = sys.modules["IPython"].display.display
        self._handle = display(self._bundle(), raw=True, display_id=True)

    def stop(self) -> None:
        """Leave the last state in the notebook."""

    def advance(self, figures: str) -> None:
        self._done += 1
        self._figures = printable(figures)
        self._handle.update(self._bundle(), raw=True)

    def _bundle(self) -> dict[str, str]:
        """Return the bar as text and as HTML."""
        text = f"round {self._done}/{self._total}  {self._figures}".rstrip()
        bar = f"<progress value='{self._done}' max='{max(1, self._total)}' style='width:8em'></progress>"
        shown = f"<span style='font-size:90%;white-space:pre-wrap'>{bar}  {html.escape(text)}</span>"
        return {"text/plain": text, "text/html": shown}
