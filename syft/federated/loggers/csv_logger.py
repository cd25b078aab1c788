"""CSVLogger: one row for each round in a CSV file, which several runs may share."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syft.exceptions import TrainingError
from syft.federated.history.records import RoundRecord
from syft.federated.history.round_report import RoundReport

if TYPE_CHECKING:
    from syft.federated.loggers.run_logger import RunStart
    from syft.federated.server.result import Result

_FIRST = ("run", "round", "loss")
_LAST = ("asked", "answered", "failed", "bytes_out", "bytes_in", "seconds", "epsilon", "neighbours", "reasons", "other")
# A spreadsheet would compute cells that start with one of these, and reasons come from clients.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class CSVLogger:
    """Writes a row for each round to a CSV file, at once.

    Rows are appended: the column `run` distinguishes the runs of a file. A run that continues a checkpoint has each of
    its rounds once. The columns are fixed by the first round, or by `metrics`; a metric that appears later is in the
    column `other`, as JSON.

    Args:
        path: the file. Its folder is created if it is missing.
        metrics: names of the metrics to have columns for; by default those of the first round.

    Example:
        >>> import syft as sy
        >>> sy.federated.CSVLogger("run.csv", metrics=["accuracy"])
        <CSVLogger 'run.csv'>
    """

    def __init__(self, path: str | os.PathLike[str], metrics: Iterable[str] | None = None) -> None:
        self.path = Path(path)
        self._metrics = None if metrics is None else [_column(name) for name in metrics]
        self._columns: list[str] = []
        self._run = ""

    def on_start(self, run: RunStart) -> None:
        """Read the file, remove rounds of this run that are not complete, and add complete ones that it lacks."""
        self._run, self._columns = run.id, []
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines, is_whole = self._read()
        if lines:
            self._columns = lines[0]
            missing = [name for name in (*_FIRST, *_LAST) if name not in self._columns]
            if missing:
                raise TrainingError(
                    f"{self.path} is not a log of runs: it has no column {missing[0]!r}. Choose another file."
                )
        kept, found = self._kept(lines[1:], len(run.history))
        if lines and (not is_whole or len(kept) < len(lines) - 1):
            self._replace([self._columns, *kept])
        if self._metrics is not None or run.history:
            self._begin(run.history.metrics)
        for record in run.history:
            if str(record.number) not in found:
                self._append([self._row(record)])

    def on_round(self, report: RoundReport) -> None:
        """Append the row of a round."""
        self._begin(report.metrics)
        self._append([self._row(report.record)])

    def on_end(self, result: Result) -> None:
        """Do nothing: each row is written when its round ends."""

    def _begin(self, metrics: Iterable[str]) -> None:
        """Write the names of the columns, if the file has none."""
        if not self._columns:
            names = self._metrics if self._metrics is not None else map(_column, metrics)
            self._columns = [*_FIRST, *dict.fromkeys(names), *_LAST]
            self._append([self._columns])

    def _row(self, record: RoundRecord) -> list[Any]:
        values = {**record.row(), "run": self._run, "neighbours": record.neighbours}
        metrics = {_column(name): value for name, value in record.metrics.items()}
        values |= metrics
        other = {name: value for name, value in metrics.items() if name not in self._columns}
        values["other"] = json.dumps(other) if other else None
        return [_cell(values.get(name)) for name in self._columns]

    # --- the file -----------------------------------------------------------------------------------------------

    def _read(self) -> tuple[list[list[str]], bool]:
        """Return the lines of the file, and whether it ends with a whole one; a partial one is left out."""
        try:
            text = self.path.read_bytes().decode("utf-8", "replace")
        except FileNotFoundError:
            return [], True
        whole = text[: text.rfind("\n") + 1]
        return [line for line in csv.reader(io.StringIO(whole)) if line], whole == text

    def _kept(self, lines: list[list[str]], done: int) -> tuple[list[list[str]], set[str]]:
        """Return the lines of other runs and of the complete rounds of this one, and the numbers of the latter."""
        found: set[str] = set()
        kept = []
        run, number = (self._columns.index(name) if self._columns else 0 for name in ("run", "round"))
        for line in lines:
            if len(line) == len(self._columns) and line[run] == self._run:
                is_complete = line[number].isdecimal() and int(line[number]) <= done
                if not is_complete or line[number] in found:
                    continue
                found.add(line[number])
            kept.append(line)
        return kept, found

    def _append(self, lines: list[list[Any]]) -> None:
        with self.path.open("ab") as file:  # one write: rows of concurrent runs do not mix
            file.write(_text(lines))

    def _replace(self, lines: list[list[Any]]) -> None:
        fresh = self.path.with_name(f"{self.path.name}.new")
        fresh.write_bytes(_text(lines))
        fresh.replace(self.path)

    def __repr__(self) -> str:
        return f"<CSVLogger {str(self.path)!r}>"


def _text(lines: list[list[Any]]) -> bytes:
    written = io.StringIO(newline="")
    csv.writer(written, lineterminator="\n").writerows(lines)
    return written.getvalue().encode()


def _column(metric: str) -> str:
    """Return the column of a metric: on one line, and different from the other columns."""
    name = _cell(" ".join(str(metric).split()))
    return f"eval_{name}" if name in (*_FIRST, *_LAST) else str(name)


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
