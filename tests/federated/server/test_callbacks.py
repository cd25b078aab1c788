"""Callbacks of a run: reports, stopping, and results that survive errors of user code."""

from __future__ import annotations

import dataclasses
import logging
import os
import signal

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import syft as sy
from syft.federated.server.clients import LocalClient

EXAMPLE = (torch.zeros(2, 3), torch.zeros(2, dtype=torch.long))


def part(number, count=16):
    data = torch.randn(count, 3, generator=torch.Generator().manual_seed(number))
    return TensorDataset(data, (data.sum(1) > 0).long())


class Flaky(LocalClient):
    """A client that fails in some rounds."""

    def __init__(self, name, rounds, error=None):
        super().__init__(name, part(7))
        self.rounds, self.error = rounds, error or ConnectionError("the line is cut")

    def call(self, run, name, payload, timeout=None):
        if payload.get("round") in self.rounds:
            raise self.error
        return super().call(run, name, payload, timeout)


def train(rounds=4, clients=None, **options):
    settings = {
        "model": nn.Linear(3, 2), "loss_fn": cross_entropy, "example": EXAMPLE, "batch_size": 8, "seed": 1,
        "progress": False, **options,
    }  # fmt: skip
    return sy.federated.run("fedavg", clients or [part(0), part(1)], rounds, **settings)


def test_a_callback_gets_a_frozen_report_of_each_round():
    reports = []
    clients = [Flaky("good", ()), Flaky("bad", (2,))]
    result = train(3, clients, on_round=reports.append, evaluate=lambda model: {"accuracy": 0.5})
    assert [report.number for report in reports] == [1, 2, 3]
    assert [report.may_stop for report in reports] == [True, True, False]
    second = reports[1]
    assert second.answered == ("good",) and dict(second.failed) == {"bad": "ConnectionError: the line is cut"}
    assert second.asked == 2 and second.record == result.history[1] and second.rounds == 3
    assert dict(second.metrics) == {"accuracy": 0.5} and second.loss == result.history.losses[1]
    assert second.bytes_out > 0 and second.bytes_in > 0 and second.seconds > 0 and second.epsilon is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        second.loss = 0.0
    with pytest.raises(TypeError):
        second.failed["bad"] = ""
    with pytest.raises(TypeError):
        second.metrics["accuracy"] = 1.0


def test_a_report_has_the_privacy_loss_so_far():
    reports = []
    privacy = sy.dp.UserPrivacy(noise_multiplier=1.0, clip=1.0, delta=1e-3, rate=1.0)
    result = train(2, privacy=privacy, on_round=reports.append)
    assert reports[0].epsilon < reports[1].epsilon == result.epsilon
    assert dict(reports[1].epsilons) == result.epsilons


def raised(signal):
    raise signal


@pytest.mark.parametrize("stop", [lambda signal: signal, raised], ids=["returned", "raised"])
def test_a_stop_ends_the_run_with_the_complete_rounds(stop):
    result = train(on_round=lambda report: stop(sy.federated.Stop("good enough")) if report.number == 2 else None)
    assert result.rounds == len(result.history) == 2 and result.ending == "good enough"
    whole = train(2)
    options = {"model": nn.Linear(3, 2)}
    stopped = train(on_round=lambda report: sy.federated.Stop() if report.number == 2 else None, **options)
    assert torch.equal(stopped.model.weight, train(2, **options).model.weight) and whole.ending is None


def test_a_stop_after_the_last_round_changes_nothing():
    assert train(2, on_round=lambda report: sy.federated.Stop() if not report.may_stop else None).ending is None


def test_evaluate_may_stop_a_run():
    def evaluate(model):
        raise sy.federated.Stop("seen enough")

    result = train(evaluate=evaluate)
    assert result.rounds == 1 and result.ending == "seen enough"


def interrupt(*ignored):
    os.kill(os.getpid(), signal.SIGINT)


def fail(*ignored):
    raise ZeroDivisionError("user code")


class Second:
    """Calls a function the second time."""

    def __init__(self, function, otherwise=None):
        self.function, self.otherwise, self.calls = function, otherwise, 0

    def __call__(self, *given):
        self.calls += 1
        return self.function(*given) if self.calls == 2 else self.otherwise


@pytest.mark.parametrize(("action", "kind"), [(interrupt, KeyboardInterrupt), (fail, ZeroDivisionError)])
@pytest.mark.parametrize("where", ["on_round", "evaluate"])
def test_an_error_of_user_code_carries_the_complete_rounds(action, kind, where):
    model = nn.Linear(3, 2)
    hook = Second(action, {"accuracy": 0.5} if where == "evaluate" else None)
    with pytest.raises(kind) as caught:
        train(model=model, **{where: hook})
    result = caught.value.result
    assert result.rounds == len(result.history) == 2 and kind.__name__ in result.ending
    assert torch.equal(result.model.weight, train(2, model=model).model.weight)
    assert any("2 complete rounds" in note for note in caught.value.__notes__)


def test_an_interrupt_within_a_round_gives_the_round_before(tmp_path):
    class Interrupting(Flaky):
        def call(self, run, name, payload, timeout=None):
            if payload["round"] == 3:
                interrupt()
            return super().call(run, name, payload, timeout)

    model = nn.Linear(3, 2)
    options = {"model": model, "checkpoint": tmp_path}
    with pytest.raises(KeyboardInterrupt) as caught:
        train(4, [Flaky("a", ()), Interrupting("b", ())], **options)
    plain = [Flaky("a", ()), Flaky("b", ())]
    assert caught.value.result.rounds == 2
    assert torch.equal(caught.value.result.model.weight, train(2, plain, model=model).model.weight)
    assert torch.equal(train(4, plain, **options).model.weight, train(4, plain, model=model).model.weight)


class Cut(sy.federated.FedAvg):
    """A strategy that is interrupted when the model of round 3 is there, and the round not yet complete."""

    def counted(self, clients, round):
        if round.number == 3:
            interrupt()


def test_a_model_of_an_incomplete_round_is_not_in_the_result():
    model = nn.Linear(3, 2)
    settings = {"model": model, "loss_fn": cross_entropy, "example": EXAMPLE, "batch_size": 8, "seed": 1}
    with pytest.raises(KeyboardInterrupt) as caught:
        sy.federated.run(Cut(), [part(0), part(1)], 4, **settings)
    result = caught.value.result
    assert result.rounds == len(result.history) == 2
    assert torch.equal(result.model.weight, train(2, model=model).model.weight)


@pytest.mark.parametrize("found", [True, 0.5, "stop"])
def test_a_callback_returns_none_or_a_stop(found):
    with pytest.raises(TypeError, match=r"None or sy.federated.Stop") as caught:
        train(on_round=lambda report: found)
    assert caught.value.result.rounds == 1


def test_a_callback_must_be_a_function():
    with pytest.raises(TypeError, match="on_round must be a function"):
        train(on_round=3)


# --- failures ---------------------------------------------------------------------------------------------------------


def test_failures_are_in_the_reprs():
    result = train(3, [Flaky("good", ()), Flaky("bad", (1, 3)), Flaky("worse", (3,), OSError("no disk"))])
    assert "3 of 9 calls failed: bad: ConnectionError: the line is cut (and 1 more)" in repr(result)
    assert "3 of 9 calls failed" in repr(result.history) and "3 of 9 calls failed" in result.history._repr_html_()
    assert "failed" not in repr(train(1))


def test_a_client_that_keeps_failing_is_reported_once(caplog):
    clients = [Flaky("good", ()), Flaky("bad", range(100)), Flaky("flaky", (1, 2, 4, 5))]
    with caplog.at_level(logging.WARNING):
        train(7, clients)
    (record,) = caplog.records
    assert "1 client failed in 3 rounds in a row, up to round 3: bad: ConnectionError" in record.getMessage()
