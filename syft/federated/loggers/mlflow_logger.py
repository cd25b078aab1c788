"""MLflowLogger: runs in MLflow, in a local folder or at a tracking server."""

from __future__ import annotations

import importlib
import os
import time
from typing import TYPE_CHECKING, Any

from syft.exceptions import DependencyError
from syft.federated.history.records import RoundRecord
from syft.federated.history.round_report import RoundReport
from syft.federated.loggers.run_logger import RunStart, figures

if TYPE_CHECKING:
    from syft.federated.server.result import Result

# The tag by which a continued run is found again.
_TAG = "resyft.run"
_MAX_PARAM = 500


class MLflowLogger:
    """Writes each run to MLflow, as metrics with the round as their step. MLflow's global settings do not change.

    Needs the extra `mlflow`.

    Args:
        uri: the tracking URI, such as "sqlite:///mlflow.db" or "http://tracking:5000"; None for MLflow's own default.
        experiment: the name of the experiment, which is created if it is missing.
    """

    def __init__(self, uri: str | os.PathLike[str] | None = None, experiment: str = "federated") -> None:
        self._client = _package().MlflowClient(tracking_uri=None if uri is None else os.fspath(uri))
        self.experiment = experiment
        self._run = ""

    def on_start(self, run: RunStart) -> None:
        """Create the run, or open it again, and add the rounds of the history that it lacks."""
        known = self._client.get_experiment_by_name(self.experiment)
        where = known.experiment_id if known is not None else self._client.create_experiment(self.experiment)
        found = self._client.search_runs([where], filter_string=f"tags.`{_TAG}` = '{run.id}'", max_results=1)
        if found:
            self._run = found[0].info.run_id
            self._client.update_run(self._run, status="RUNNING")
        else:
            self._run = self._client.create_run(where, tags={_TAG: run.id}).info.run_id
            values = {**run.settings, "strategy": run.strategy, "clients": run.clients}
            for name, value in values.items():
                self._client.log_param(self._run, name, str(value)[:_MAX_PARAM])
        logged = {metric.step for metric in self._client.get_metric_history(self._run, "seconds")}
        for record in run.history:
            if record.number not in logged:
                self._write(record)

    def on_round(self, report: RoundReport) -> None:
        """Write the numbers of a round."""
        self._write(report.record)

    def _write(self, record: RoundRecord) -> None:
        metric_type = importlib.import_module("mlflow.entities").Metric
        now = int(time.time() * 1000)
        metrics = [metric_type(_name(name), value, now, record.number) for name, value in figures(record).items()]
        self._client.log_batch(self._run, metrics=metrics)

    def on_end(self, result: Result) -> None:
        """End the run: FINISHED, or KILLED if it ended before its last round."""
        if result.ending is not None:
            self._client.set_tag(self._run, "resyft.ending", result.ending)
        self._client.set_terminated(self._run, "FINISHED" if result.ending is None else "KILLED")

    def __repr__(self) -> str:
        return f"<MLflowLogger of experiment {self.experiment!r}>"


def _name(text: str) -> str:
    """Return a name that MLflow accepts."""
    return "".join(c if c.isalnum() or c in "_-./ " else "_" for c in text)[:250]


def _package() -> Any:
    try:
        return importlib.import_module("mlflow")
    except ImportError as error:
        raise DependencyError("mlflow", "mlflow") from error
