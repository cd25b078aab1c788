"""History: the records of a federated run, one for each round."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

import torch

from syft._suggestions import did_you_mean
from syft.display import grid_html
from syft.display.facts import FactList, Shown
from syft.exceptions import FederatedError, TrainingError
from syft.federated.history.chart import draw
from syft.federated.history.page import RunView, save_page
from syft.federated.history.round_outcome import shortened
from syft.federated.history.text import size_text

# Maximum number of failure reasons in a record, and length of each, so that records of large runs stay small.
MAX_REASONS = 5
MAX_REASON = 600
# Maximum number of rounds in a notebook's table, and of charts.
_SHOWN_ROUNDS = 20
_SHOWN_CHARTS = 6
# Maximum length of a reason in a repr.
_SHOWN_REASON = 120
_COUNTS = ("number", "asked", "answered", "failed", "bytes_out", "bytes_in")


@dataclasses.dataclass(frozen=True, slots=True)
class RoundRecord(Shown):
    """The record of one round.

    Attributes:
        number: 1 for the first round.
        loss: the mean training loss of the clients; None if no client reported one.
        metrics: the results of `evaluate` after the round, numbers by name.
        asked: number of clients that were called.
        answered: number of results that were counted.
        failed: number of clients that failed or were late.
        reasons: why, for some of them: texts, or pairs of a client and a text.
        bytes_out: bytes sent to clients.
        bytes_in: bytes received.
        seconds: duration of the round.
        epsilon: the privacy loss so far; None if it is not tracked.
        neighbours: the neighbouring relation of epsilon: "replace-one row" or "add/remove one client".
    """

    number: int
    loss: float | None = None
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    asked: int = 0
    answered: int = 0
    failed: int = 0
    reasons: Iterable[Any] = ()
    bytes_out: int = 0
    bytes_in: int = 0
    seconds: float = 0.0
    epsilon: float | None = None
    neighbours: str | None = None

    def __post_init__(self) -> None:
        for name in _COUNTS:
            value = getattr(self, name)
            if type(value) is not int or value < (1 if name == "number" else 0):
                raise TrainingError(f"{name} of a round must be an integer, got {value!r:.40}.")
        found = {"seconds": _number("seconds", self.seconds), "metrics": _metrics(self.metrics)}
        for name in ("loss", "epsilon"):
            value = getattr(self, name)
            found[name] = None if value is None else _number(name, value)
        if self.neighbours is not None and type(self.neighbours) is not str:
            raise TrainingError(f"neighbours of a round must be a string, got {self.neighbours!r:.40}.")
        found["reasons"] = _short(self.reasons)
        for name, value in found.items():
            object.__setattr__(self, name, value)

    def _title(self) -> str:
        return f"round {self.number}"

    def _facts(self) -> FactList:
        units = {"bytes_out": size_text(self.bytes_out), "bytes_in": size_text(self.bytes_in)}
        return ((name, units.get(name, value)) for name, value in self.row().items() if name != "round")

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain values."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**fields, "metrics": dict(self.metrics), "reasons": list(self.reasons)}

    def row(self) -> dict[str, Any]:
        """Return the record as one flat row; a metric with the name of another column gets the prefix `eval_`."""
        row = {"round": self.number, "loss": self.loss, **{_column(name): v for name, v in self.metrics.items()}}
        row |= {name: getattr(self, name) for name in (*_COUNTS[1:], "seconds", "epsilon")}
        return {**row, "reasons": "; ".join(self.reasons)}


class History(Sequence[RoundRecord]):
    """The rounds of a run, in order.

    Args:
        records: initial rounds.

    Example:
        >>> history = History([RoundRecord(1, 0.9, {"accuracy": 0.5}), RoundRecord(2, 0.4, {"accuracy": 0.8})])
        >>> history.losses, history.metric("accuracy")
        ([0.9, 0.4], [0.5, 0.8])
        >>> history
        <History of 2 rounds: loss 0.9 to 0.4, accuracy 0.5 to 0.8>
    """

    def __init__(self, records: Iterable[RoundRecord] = ()) -> None:
        self._records: list[RoundRecord] = []
        for record in records:
            self.append(record)

    def append(self, record: RoundRecord) -> None:
        """Add a round; its number must be above that of the last one."""
        if not isinstance(record, RoundRecord):
            raise TrainingError(f"A history consists of RoundRecords, got a {type(record).__name__}.")
        if self._records and record.number <= self._records[-1].number:
            raise TrainingError(f"Round {record.number} can't follow round {self._records[-1].number}.")
        self._records.append(record)

    def replace_last(self, record: RoundRecord) -> None:
        """Replace the record of the last round, when more is known of it."""
        if not self._records or record.number != self._records[-1].number:
            raise TrainingError(f"Round {record.number} is not the last one.")
        self._records[-1] = record

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> RoundRecord: ...
    @overload
    def __getitem__(self, index: slice) -> History: ...
    def __getitem__(self, index: int | slice) -> RoundRecord | History:
        return History(self._records[index]) if isinstance(index, slice) else self._records[index]

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, History) else NotImplemented

    # --- numbers ------------------------------------------------------------------------------------------------

    @property
    def losses(self) -> list[float]:
        """The mean training loss of the clients, round by round; NaN where no client reported one."""
        return [math.nan if record.loss is None else record.loss for record in self._records]

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics."""
        return list(dict.fromkeys(name for record in self._records for name in record.metrics))

    def metric(self, name: str) -> list[float]:
        """Return one metric of `evaluate`, round by round; NaN where it is missing."""
        if name not in self.metrics:
            known = ", ".join(self.metrics) or "none"
            hint = did_you_mean(name, self.metrics)
            raise TrainingError(f"There is no metric {name!r:.40}.{hint} Available: {known}.")
        return [record.metrics.get(name, math.nan) for record in self._records]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each round with the same columns, for `pandas.DataFrame(history.rows())`."""
        empty = {_column(name): None for name in self.metrics}
        return [{"round": record.number, "loss": record.loss, **empty, **record.row()} for record in self._records]

    # --- checkpoints --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the history as plain values."""
        return {"rounds": [record.to_dict() for record in self._records]}

    @classmethod
    def from_dict(cls, saved: object) -> History:
        """Return the history from the result of `to_dict`; raises FederatedError for anything else."""
        rounds = saved.get("rounds") if isinstance(saved, dict) and len(saved) == 1 else None
        names = {field.name for field in dataclasses.fields(RoundRecord)}
        needed = names - {"neighbours"}  # earlier releases did not write it
        if not isinstance(rounds, list | tuple) or not all(
            isinstance(r, dict) and needed <= r.keys() <= names for r in rounds
        ):
            raise FederatedError("This is not the history of a run: expected {'rounds': [...]}, the result of to_dict.")
        try:
            return cls(RoundRecord(**values) for values in rounds)
        except TrainingError as error:
            raise FederatedError(f"The history of the run is damaged: {error}") from None

    # --- display ------------------------------------------------------------------------------------------------

    def plot(self, *names: str, path: Any = None, ax: Any = None) -> Any:
        """Plot numbers over the rounds, one chart for each name.

        Args:
            *names: columns of `rows`, such as "loss", "accuracy" or "bytes_in"; by default the loss and all metrics.
            path: a file to write the charts to, as SVG.
            ax: matplotlib axes to draw on instead.

        Returns:
            The charts, which a notebook displays; the axes if they were given.
        """
        series = {name: self._series(name) for name in names or self.usual()}
        if ax is not None:
            for name, points in series.items():
                ax.plot([x for x, _ in points], [y for _, y in points], label=name)
            ax.set_xlabel("round")
            ax.legend()
            return ax
        chart = draw(series, "round")
        if path is not None:
            chart.save(path)
        return chart

    def usual(self) -> list[str]:
        """Return the columns that are plotted by default: those of the loss, metrics and epsilon with values."""
        columns = ["loss", *map(_column, self.metrics), "epsilon"]
        rows = self.rows()
        return [name for name in columns if any(row.get(name) is not None for row in rows)][:_SHOWN_CHARTS]

    def _series(self, name: str) -> list[tuple[int, float]]:
        rows = self.rows()
        columns = [key for key in (rows[0] if rows else {"loss": None}) if key not in ("round", "reasons")]
        if name not in columns:
            hint = did_you_mean(name, columns)
            raise TrainingError(f"There is no column {name!r:.40} to plot.{hint} Available: {', '.join(columns)}.")
        return [(row["round"], math.nan if row[name] is None else float(row[name])) for row in rows]

    def save(self, path: Any) -> None:
        """Write a page with charts and tables to one .html file, which shows without a network or JavaScript."""
        save_page(path, self, RunView())

    def __repr__(self) -> str:
        if not self._records:
            return "<History of no rounds>"
        parts = []
        for name in self.usual():
            values = [value for _, value in self._series(name) if math.isfinite(value)]
            if values:
                last = f" to {values[-1]:.4g}" if len(values) > 1 else ""
                unit = self._records[-1].neighbours if name == "epsilon" else None
                parts.append(f"{name} {values[0]:.4g}{last}" + ("" if unit is None else f" ({unit})"))
        count = len(self._records)
        text = f"<History of {count} round{'s'[: count != 1]}{': ' if parts else ''}{', '.join(parts)}"
        return f"{text}{self._failures()}>"

    def _failures(self) -> str:
        """Return how many calls failed, with the most frequent reason; nothing if none did."""
        asked, failed = (sum(getattr(record, name) for record in self._records) for name in ("asked", "failed"))
        if not failed:
            return ""
        reasons = Counter(reason for record in self._records for reason in record.reasons)
        why = "".join(f": {shortened(reason, _SHOWN_REASON)}" for reason, _ in reasons.most_common(1))
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        return f"; {failed} of {asked} calls failed{why}{more}"

    def _repr_html_(self) -> str:
        title, rows = repr(self).strip("<>"), self.rows()[-_SHOWN_ROUNDS:]
        if len(rows) < len(self):
            title = f"{title}; the last {len(rows)} rounds, .rows() has all"
        columns = [name for name in (rows[-1] if rows else ()) if any(row[name] not in (None, "") for row in rows)]
        table = grid_html(title, columns, [[_cell(name, row[name]) for name in columns] for row in rows])
        return f"{self.plot().inline()}{table}" if self.usual() else table


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name.startswith("bytes_"):
        return size_text(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


_FIELDS = frozenset({"round", "loss", *_COUNTS, "seconds", "epsilon", "reasons"})


def _column(metric: str) -> str:
    """Return the column name of a metric."""
    return f"eval_{metric}" if metric in _FIELDS else metric


def _number(name: str, value: object) -> float:
    """Return a Python number for one of numpy, torch or Python."""
    if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.dtype.is_complex:
        return float(value)
    if not isinstance(value, numbers.Real):
        raise TrainingError(f"{name:.40} of a round must be a number, got a {type(value).__name__}.")
    return float(value)


def _metrics(given: object) -> dict[str, float]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise TrainingError("evaluate must return numbers by name, such as {'accuracy': 0.9}.")
    return {name: _number(name, value) for name, value in given.items()}


def _short(reasons: object) -> tuple[str, ...]:
    """Return a few of the reasons, each text once and on one line."""
    if isinstance(reasons, str) or not isinstance(reasons, Iterable):
        raise TrainingError("reasons of a round must be a list of texts, or of pairs of a client and a text.")
    found: dict[str, str] = {}
    for reason in reasons:
        client, text = reason if isinstance(reason, tuple) and len(reason) == 2 else ("", reason)
        text = " ".join(str(text).split())
        found.setdefault(text, f"{client}: {text}" if client else text)
        if len(found) == MAX_REASONS:
            break
    return tuple(shortened(line, MAX_REASON) for line in found.values())
