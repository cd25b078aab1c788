"""History: what a federated run went through, one record a round."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

import torch

from syft.exceptions import FederatedError, TrainingError
from syft.federated.history.chart import Chart, draw
from syft.federated.history.round_outcome import shortened

# How many reasons of failures a record keeps, and how much of each: a run of many clients stays small.
MAX_REASONS = 5
MAX_REASON = 600
# How many rounds the table of a notebook shows, and how many charts.
_SHOWN_ROUNDS = 20
_SHOWN_CHARTS = 6
_COUNTS = ("number", "asked", "answered", "failed", "bytes_out", "bytes_in")


@dataclasses.dataclass(frozen=True, slots=True)
class RoundRecord:
    """What happened in one round.

    Attributes:
        number: 1 for the first round.
        loss: the mean loss of the clients in training; None if nobody told one.
        metrics: what `evaluate` gave after the round, numbers by name.
        asked: how many clients were asked to train.
        answered: how many of them were counted.
        failed: how many of them failed or were late.
        reasons: why, for some of them: texts, or pairs of a client and a text.
        bytes_out: how much was sent to clients.
        bytes_in: how much came back.
        seconds: how long it took.
        epsilon: what was spent of privacy up to then; None if it is not counted.
        neighbours: which data sets or clients epsilon is about: "replace-one row" or "add/remove one client".
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
                raise TrainingError(f"{name} of a round is a whole number, and not {value!r:.40}.")
        found = {"seconds": _number("seconds", self.seconds), "metrics": _metrics(self.metrics)}
        for name in ("loss", "epsilon"):
            value = getattr(self, name)
            found[name] = None if value is None else _number(name, value)
        if self.neighbours is not None and type(self.neighbours) is not str:
            raise TrainingError(f"neighbours of a round is a text, and not {self.neighbours!r:.40}.")
        found["reasons"] = _short(self.reasons)
        for name, value in found.items():
            object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain values."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**fields, "metrics": dict(self.metrics), "reasons": list(self.reasons)}

    def row(self) -> dict[str, Any]:
        """Return the record as one flat row; a metric that is called like another column gets `eval_` before it."""
        row = {"round": self.number, "loss": self.loss, **{_column(name): v for name, v in self.metrics.items()}}
        row |= {name: getattr(self, name) for name in (*_COUNTS[1:], "seconds", "epsilon")}
        return {**row, "reasons": "; ".join(self.reasons)}


class History(Sequence[RoundRecord]):
    """The rounds of a run, in their order.

    Args:
        records: rounds to begin with.

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
        """Add a round; its number is above that of the last one."""
        if not isinstance(record, RoundRecord):
            raise TrainingError(f"A history is made of RoundRecords, and not of a {type(record).__name__}.")
        if self._records and record.number <= self._records[-1].number:
            raise TrainingError(f"Round {record.number} can't follow round {self._records[-1].number}.")
        self._records.append(record)

    def replace_last(self, record: RoundRecord) -> None:
        """Put another record of the last round in its place, when more is known of it."""
        if not self._records or record.number != self._records[-1].number:
            raise TrainingError(f"Round {record.number} is not the last one.")
        self._records[-1] = record

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[RoundRecord]:
        return iter(self._records)

    @overload
    def __getitem__(self, index: int) -> RoundRecord: ...
    @overload
    def __getitem__(self, index: slice) -> History: ...
    def __getitem__(self, index: int | slice) -> RoundRecord | History:
        return History(self._records[index]) if isinstance(index, slice) else self._records[index]

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, History) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    # --- numbers ------------------------------------------------------------------------------------------------

    @property
    def losses(self) -> list[float]:
        """The mean loss of the clients in training, round by round; not a number where nobody told one."""
        return [math.nan if record.loss is None else record.loss for record in self._records]

    @property
    def metrics(self) -> list[str]:
        """The names of what was measured after the rounds."""
        return list(dict.fromkeys(name for record in self._records for name in record.metrics))

    def metric(self, name: str) -> list[float]:
        """Return one of the things that `evaluate` gave, round by round; not a number where it did not."""
        if name not in self.metrics:
            raise TrainingError(f"No round has a metric {name!r:.40}; there is {', '.join(self.metrics) or 'none'}.")
        return [record.metrics.get(name, math.nan) for record in self._records]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each round with the same columns, as `pandas.DataFrame(history.rows())` takes them."""
        empty = {_column(name): None for name in self.metrics}
        return [{"round": record.number, "loss": record.loss, **empty, **record.row()} for record in self._records]

    # --- checkpoints --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {"rounds": [record.to_dict() for record in self._records]}

    @classmethod
    def from_dict(cls, saved: object) -> History:
        """Return the history that `to_dict` gave; refuses anything else."""
        rounds = saved.get("rounds") if isinstance(saved, dict) and len(saved) == 1 else None
        names = {field.name for field in dataclasses.fields(RoundRecord)}
        needed = names - {"neighbours"}  # earlier releases did not write it
        if not isinstance(rounds, list | tuple) or not all(
            isinstance(r, dict) and needed <= r.keys() <= names for r in rounds
        ):
            raise FederatedError("This is not the history of a run: it is {'rounds': [...]}, as to_dict gives it.")
        try:
            return cls(RoundRecord(**values) for values in rounds)
        except TrainingError as error:
            raise FederatedError(f"The history of the run is damaged: {error}") from None

    # --- looking at it ------------------------------------------------------------------------------------------

    def plot(self, *names: str, path: Any = None, ax: Any = None) -> Any:
        """Draw numbers over the rounds, one chart for each name.

        Args:
            *names: columns of `rows`, such as "loss", "accuracy" or "bytes_in"; by default the loss and all metrics.
            path: a file to write the charts to, as SVG.
            ax: axes of matplotlib to draw on instead.

        Returns:
            The charts, which a notebook shows; the axes if they were given.
        """
        series = {name: self._series(name) for name in names or self._usual()}
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

    def _usual(self) -> list[str]:
        columns = ["loss", *map(_column, self.metrics), "epsilon"]
        rows = self.rows()
        return [name for name in columns if any(row.get(name) is not None for row in rows)][:_SHOWN_CHARTS]

    def _series(self, name: str) -> list[tuple[int, float]]:
        rows = self.rows()
        columns = [key for key in (rows[0] if rows else {"loss": None}) if key not in ("round", "reasons")]
        if name not in columns:
            raise TrainingError(f"There is nothing called {name!r:.40} to plot; there is {', '.join(columns)}.")
        return [(row["round"], math.nan if row[name] is None else float(row[name])) for row in rows]

    def __repr__(self) -> str:
        if not self._records:
            return "<History of no rounds>"
        parts = []
        for name in self._usual():
            values = [value for _, value in self._series(name) if math.isfinite(value)]
            if values:
                last = f" to {values[-1]:.4g}" if len(values) > 1 else ""
                unit = self._records[-1].neighbours if name == "epsilon" else None
                parts.append(f"{name} {values[0]:.4g}{last}" + ("" if unit is None else f" ({unit})"))
        count = len(self._records)
        return f"<History of {count} round{'s'[: count != 1]}{': ' if parts else ''}{', '.join(parts)}>"

    def _repr_html_(self) -> str:
        from syft.federated.history.html import page

        chart: Chart | None = self.plot() if self._usual() else None
        return page(repr(self).strip("<>"), chart, self.rows()[-_SHOWN_ROUNDS:], len(self._records))


_FIELDS = frozenset({"round", "loss", *_COUNTS, "seconds", "epsilon", "reasons"})


def _column(metric: str) -> str:
    """Return what the column of a metric is called."""
    return f"eval_{metric}" if metric in _FIELDS else metric


def _number(name: str, value: object) -> float:
    """Return a number of Python for one of numpy, torch or Python."""
    if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.dtype.is_complex:
        return float(value)
    if not isinstance(value, numbers.Real):
        raise TrainingError(f"{name:.40} of a round is a number, and not a {type(value).__name__}.")
    return float(value)


def _metrics(given: object) -> dict[str, float]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise TrainingError("evaluate returns numbers by name, such as {'accuracy': 0.9}.")
    return {name: _number(name, value) for name, value in given.items()}


def _short(reasons: object) -> tuple[str, ...]:
    """Return a few of the reasons, each text once and on one line."""
    if isinstance(reasons, str) or not isinstance(reasons, Iterable):
        raise TrainingError("reasons of a round are a list of texts, or of pairs of a client and a text.")
    found: dict[str, str] = {}
    for reason in reasons:
        client, text = reason if isinstance(reason, tuple) and len(reason) == 2 else ("", reason)
        text = " ".join(str(text).split())
        found.setdefault(text, f"{client}: {text}" if client else text)
        if len(found) == MAX_REASONS:
            break
    return tuple(shortened(line, MAX_REASON) for line in found.values())
