"""RunLogger: the protocol of loggers, and the `loggers` argument of a run."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from syft.exceptions import TrainingError
from syft.federated.history.records import RoundRecord
from syft.federated.history.round_report import RoundReport
from syft.federated.loggers.csv_logger import CSVLogger

if TYPE_CHECKING:
    from syft.federated.history.records import History
    from syft.federated.server.result import Result

_METHODS = ("on_start", "on_round", "on_end")


@dataclasses.dataclass(frozen=True, slots=True)
class RunStart:
    """A run that starts or continues, as passed to loggers.

    Attributes:
        id: identifies the run; the same when a checkpoint is continued.
        rounds: the number of rounds that the run was asked for.
        clients: number of clients.
        strategy: the strategy with its settings.
        settings: the settings of local training, plain values by name.
        history: the rounds that are complete already; empty unless a checkpoint is continued.
        budgets: the largest epsilon of the run by neighbouring relation, if it has one.
    """

    id: str
    rounds: int
    clients: int
    strategy: str
    settings: Mapping[str, Any]
    history: History
    budgets: Mapping[str, float] = dataclasses.field(default_factory=dict)


class RunLogger(Protocol):
    """Follows a run. Every object with these methods is a logger."""

    def on_start(self, run: RunStart) -> None:
        """Prepare for a run; if it continues a checkpoint, `run.history` has the earlier rounds."""
        ...

    def on_round(self, report: RoundReport) -> None:
        """Log a complete round."""
        ...

    def on_end(self, result: Result) -> None:
        """Close the logger. A run that failed has its reason in `result.ending`."""
        ...


def loggers_of(given: object) -> list[RunLogger]:
    """Return the loggers for the `loggers` argument of `run`: one or several objects, or names of CSV files."""
    if given is None:
        return []
    several = isinstance(given, Iterable) and not isinstance(given, str | os.PathLike) and not _is_logger(given)
    return [_logger(one) for one in (given if several else [given])]  # type: ignore[attr-defined]


def _logger(one: Any) -> RunLogger:
    if isinstance(one, str | os.PathLike):
        if Path(one).suffix.lower() != ".csv":
            raise TrainingError(
                f"The name of a log file must end in .csv, got {os.fspath(one)!r:.100}. For other formats pass a "
                "logger, such as sy.federated.TensorBoardLogger('logs')."
            )
        return CSVLogger(one)
    if isinstance(one, type) or not _is_logger(one):
        name = one.__name__ if isinstance(one, type) else type(one).__name__
        raise TypeError(
            f"A logger must be the name of a .csv file or an object with {', '.join(_METHODS)}, got {name:.100}."
        )
    logger: RunLogger = one
    return logger


def _is_logger(one: object) -> bool:
    return all(callable(getattr(one, name, None)) for name in _METHODS)


def figures(record: RoundRecord) -> dict[str, float]:
    """Return the numbers of a round by the name of their curve."""
    found = {"loss": record.loss, "epsilon": record.epsilon, "seconds": record.seconds}
    found |= {f"clients/{name}": getattr(record, name) for name in ("asked", "answered", "failed")}
    found |= {f"bytes/{name}": getattr(record, f"bytes_{name}") for name in ("out", "in")}
    found |= {f"metrics/{name}": value for name, value in record.metrics.items()}
    return {name: float(value) for name, value in found.items() if value is not None}
