"""Loggers: written by real runs, and read back with the packages that they are for."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence

import pytest
from torch import nn
from torch.nn.functional import cross_entropy

import syft as sy
from syft.exceptions import DependencyError, TrainingError
from tests.federated.server.test_callbacks import EXAMPLE, Flaky, fail, part


def train(rounds=3, **options):
    settings = {
        "model": nn.Linear(3, 2), "loss_fn": cross_entropy, "example": EXAMPLE, "batch_size": 8, "seed": 1,
        "progress": False, "evaluate": lambda model: {"accuracy": 0.5}, "clients": [part(0), part(1)], **options,
    }  # fmt: skip
    return sy.federated.run("fedavg", settings.pop("clients"), rounds, **settings)


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


class Recorder:
    def __init__(self):
        self.events = []

    def on_start(self, run):
        self.events.append(("start", run))

    def on_round(self, report):
        self.events.append(("round", report.number))

    def on_end(self, result):
        self.events.append(("end", result))


# --- the protocol -----------------------------------------------------------------------------------------------------


def test_a_logger_is_any_object_with_three_methods():
    one, two = Recorder(), Recorder()
    result = train(2, loggers=[one, two])
    assert [kind for kind, _ in one.events] == [kind for kind, _ in two.events] == ["start", "round", "round", "end"]
    run = one.events[0][1]
    assert (run.rounds, run.clients, list(run.history)) == (2, 2, []) and "FedAvg" in run.strategy
    assert run.settings["batch_size"] == 8 and one.events[-1][1] is result


def test_loggers_learn_about_runs_that_fail_and_about_earlier_rounds(tmp_path):
    recorder = Recorder()
    with pytest.raises(ZeroDivisionError):
        train(loggers=recorder, on_round=lambda report: (report.number == 2 and fail()) or None, checkpoint=tmp_path)
    ((_, run), *_, (kind, ended)) = recorder.events
    assert kind == "end" and ended.rounds == 2 and "ZeroDivisionError" in ended.ending
    again = Recorder()
    train(loggers=again, checkpoint=tmp_path)
    assert again.events[0][1].id == run.id and len(again.events[0][1].history) == 2
    assert again.events[1] == ("round", 3)
    assert isinstance(run.history, Sequence) and len(run.history) == 0  # a copy


def test_an_error_of_a_logger_loses_nothing_and_ends_the_others():
    class Broken(Recorder):
        def on_round(self, report):
            raise OSError("the disk is full")

        def on_end(self, result):
            raise OSError("still full")

    other = Recorder()
    with pytest.raises(OSError, match="the disk is full") as caught:
        train(loggers=[Broken(), other])
    assert caught.value.result.rounds == 1 and other.events[-1][0] == "end"
    assert any("still full" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("given", ["run.txt", "run"])
def test_a_file_name_must_be_of_a_known_format(given):
    with pytest.raises(TrainingError, match=r"must end in \.csv"):
        train(loggers=given)


@pytest.mark.parametrize("given", [3, [object()], sy.federated.CSVLogger, [Recorder]])
def test_other_objects_are_refused(given):
    with pytest.raises(TypeError, match="A logger must be the name of a .csv file or an object with on_start"):
        train(loggers=given)


# --- CSV --------------------------------------------------------------------------------------------------------------


def test_csv_has_a_row_for_each_round_as_soon_as_it_ends(tmp_path):
    path, seen = tmp_path / "logs" / "run.csv", []
    result = train(loggers=path, on_round=lambda report: seen.append(len(rows_of(path))))
    rows = rows_of(path)
    assert seen == [1, 2, 3] and [row["round"] for row in rows] == ["1", "2", "3"]
    assert [float(row["loss"]) for row in rows] == result.history.losses
    assert {row["accuracy"] for row in rows} == {"0.5"} and rows[0]["answered"] == "2" and rows[0]["epsilon"] == ""
    assert len({row["run"] for row in rows}) == 1


def test_csv_of_a_continued_run_has_each_round_once(tmp_path):
    path, options = tmp_path / "run.csv", {"checkpoint": tmp_path / "run"}
    train(loggers=path)
    with pytest.raises(ZeroDivisionError):
        train(5, on_round=lambda report: (report.number == 3 and fail()) or None, loggers=str(path), **options)
    lines = path.read_bytes().splitlines(keepends=True)
    # a crash lost round 3 and left a part of its row, and a later checkpoint was restored from a backup
    path.write_bytes(b"".join(lines[:-1]) + lines[-2].replace(b",2,", b",9,", 1) + lines[-1][:20])
    train(5, loggers=path, **options)
    rows = rows_of(path)
    assert [row["round"] for row in rows] == ["1", "2", "3", *"12345"]
    assert len({row["run"] for row in rows}) == 2 and None not in rows[-1]
    before = path.read_bytes()
    train(5, loggers=path, **options)  # complete already
    assert path.read_bytes() == before


def test_csv_columns_are_fixed_and_other_metrics_are_kept(tmp_path):
    metrics = iter([{"accuracy": 0.1, "run": 7.0}, {"f1": 0.2}, {"accuracy": 0.3, "f1": 0.4}])
    train(loggers=tmp_path / "run.csv", evaluate=lambda model: next(metrics))
    rows = rows_of(tmp_path / "run.csv")
    assert [(row["accuracy"], row["eval_run"]) for row in rows] == [("0.1", "7.0"), ("", ""), ("0.3", "")]
    assert [json.loads(row["other"] or "{}") for row in rows] == [{}, {"f1": 0.2}, {"f1": 0.4}]
    chosen = sy.federated.CSVLogger(tmp_path / "chosen.csv", metrics=["f1"])
    train(1, loggers=[chosen], evaluate=lambda model: {"accuracy": 0.5})
    (row,) = rows_of(tmp_path / "chosen.csv")
    assert row["f1"] == "" and json.loads(row["other"]) == {"accuracy": 0.5}


def test_csv_cells_are_no_formulas(tmp_path):
    clients = [Flaky("good", ()), Flaky("=HYPERLINK(1)", (1,), OSError('a "quote",\nand a line'))]
    train(1, clients=clients, loggers=tmp_path / "run.csv")
    (row,) = rows_of(tmp_path / "run.csv")
    assert row["reasons"] == '\'=HYPERLINK(1): OSError: a "quote", and a line'


def test_csv_refuses_a_file_of_something_else(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("name,age\nann,3\n")
    with pytest.raises(TrainingError, match="is not a log of runs") as caught:
        train(loggers=path)
    assert caught.value.result.rounds == 0 and path.read_text() == "name,age\nann,3\n"


# --- TensorBoard ------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_tensorboard_reads_each_round_once(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    options = {"checkpoint": tmp_path / "run", "clients": [Flaky("good", ()), Flaky("bad", (2,))]}
    logs = sy.federated.TensorBoardLogger(tmp_path / "logs")
    with pytest.raises(ZeroDivisionError):
        train(4, loggers=logs, on_round=lambda report: (report.number == 2 and fail()) or None, **options)
    result = train(4, loggers=[logs], **options)
    (folder,) = (tmp_path / "logs").iterdir()
    found = accumulator.EventAccumulator(str(folder)).Reload()
    losses = found.Scalars("loss")
    assert [event.step for event in losses] == [1, 2, 3, 4]
    assert [event.value for event in losses] == pytest.approx(result.history.losses)
    assert {event.value for event in found.Scalars("metrics/accuracy")} == {0.5}
    assert [event.value for event in found.Scalars("clients/failed")] == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("logger", "package", "command"),
    [
        ("TensorBoardLogger", "torch.utils.tensorboard", "pip install 'tensorboard"),
        ("MLflowLogger", "mlflow", "pip install 'mlflow-skinny"),
    ],
)
def test_a_missing_package_is_named_with_the_command(logger, package, command, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(DependencyError, match=command):
        getattr(sy.federated, logger)(str(tmp_path))


# --- MLflow -----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_mlflow_reads_each_round_once(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri, options = (tmp_path / "store").as_uri(), {"checkpoint": tmp_path / "run"}
    logger = sy.federated.MLflowLogger(uri, experiment="digits")
    with pytest.raises(ZeroDivisionError):
        train(4, loggers=logger, on_round=lambda report: (report.number == 2 and fail()) or None, **options)
    result = train(4, loggers=logger, **options)
    client = mlflow.MlflowClient(tracking_uri=uri)
    (run,) = client.search_runs([client.get_experiment_by_name("digits").experiment_id])
    losses = client.get_metric_history(run.info.run_id, "loss")
    assert [metric.step for metric in losses] == [1, 2, 3, 4]
    assert [metric.value for metric in losses] == pytest.approx(result.history.losses)
    assert run.info.status == "FINISHED" and run.data.params["batch_size"] == "8"
