"""TensorBoardLogger: the curves of runs for TensorBoard."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syft.exceptions import DependencyError
from syft.federated.history.records import RoundRecord
from syft.federated.history.round_report import RoundReport
from syft.federated.loggers.run_logger import RunStart, figures

if TYPE_CHECKING:
    from syft.federated.server.result import Result


class TensorBoardLogger:
    """Writes each run to a folder of its own: `tensorboard --logdir logs` shows them as curves.

    Needs the extra `tensorboard`.

    Args:
        folder: the folder of all runs.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._writer_type = _writer_type()
        self._writer: Any = None

    def on_start(self, run: RunStart) -> None:
        """Open the folder of the run. Rounds that an earlier process wrote are replaced by those of the history."""
        self._writer = self._writer_type(str(self.folder / run.id), purge_step=1 if run.history else None)
        self._writer.add_text("run", f"{run.strategy}, {run.clients} clients, {run.rounds} rounds", 0)
        for record in run.history:
            self._write(record)
        self._writer.flush()

    def on_round(self, report: RoundReport) -> None:
        """Write the numbers of a round, and the reasons of failed clients."""
        self._write(report.record)
        self._writer.flush()

    def _write(self, record: RoundRecord) -> None:
        for name, value in figures(record).items():
            self._writer.add_scalar(name, value, record.number)
        if record.reasons:
            # TensorBoard renders Markdown: an indented block shows text of clients as it is.
            self._writer.add_text("failures", "\n".join(f"    {line}" for line in record.reasons), record.number)

    def on_end(self, result: Result) -> None:
        """Close the files."""
        self._writer.close()

    def __repr__(self) -> str:
        return f"<TensorBoardLogger {str(self.folder)!r}>"


def _writer_type() -> Any:
    try:
        return importlib.import_module("torch.utils.tensorboard").SummaryWriter
    except ImportError as error:
        raise DependencyError("tensorboard", "tensorboard") from error
