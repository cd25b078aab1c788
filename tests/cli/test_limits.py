"""Limits on the processes of users, set on the command line."""

import pytest
import torch
from typer.testing import CliRunner

import syft as sy
from syft.cli import start
from syft.cli.main import app
from syft.exceptions import TrainingError
from syft.federated.client.dp_training import check_step_seconds
from tests.helpers.cli import Served

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    words = ("node", "start", "--id", "limited", "--no-store", "--no-tokens", "--call-seconds", 2)
    made = Served(tmp_path_factory.mktemp("limited"), *words, "--max-process-memory", "1G")
    yield made
    made.end()


@pytest.fixture
def client(served, hook):
    made = sy.connect(served.told["url"], hook=hook)
    yield made
    made.close()
    hook.local_worker._known_workers.pop("limited", None)


def test_start_prints_the_isolation_measures(served):
    assert "Isolation: " in served.log.read_text()


def test_the_duration_of_a_step_is_an_option(monkeypatch, tmp_path):
    started = []
    monkeypatch.setattr(start, "_serve", lambda settings, *more: started.append(settings))
    words = ["node", "start", "--id", "paced", "--no-store", "--home", str(tmp_path)]
    for more in (["--step-seconds", "0.25"], []):
        assert CliRunner().invoke(app, [*words, *more]).exit_code == 0
    assert [settings.step_seconds for settings in started] == [0.25, None]


@pytest.mark.parametrize("seconds", [0, 3601, float("nan")])
def test_the_duration_of_a_step_is_checked(seconds):
    assert check_step_seconds(None) is None and check_step_seconds(2) == 2.0
    with pytest.raises(TrainingError, match="step_seconds must be a number above 0, at most 3600"):
        check_step_seconds(seconds)


def test_a_call_that_takes_too_much_memory_fails_alone(client):
    x = torch.ones(1).send(client)
    with pytest.raises(RuntimeError, match="memory"):
        x.expand(500_000_000).exp().sum().get()
    assert (x + 1).get() == 2


def test_a_call_that_takes_too_long_ends_the_session(client):
    x = torch.rand(3000, 3000).send(client)
    with pytest.raises(sy.exceptions.SessionEndedError, match="2 s"):
        x.svd()[1].get()
