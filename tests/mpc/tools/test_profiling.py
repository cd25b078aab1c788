"""sy.mpc.profile and sy.mpc.count: costs of encrypted operations, with parties in process and in child processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import syft as sy
from syft.core import observers
from syft.exceptions import DriftError, SyftError
from syft.mpc.runtime import cost_meter
from tests.helpers.processes import end, start

BINARY = {"base": 2, "precision_fractional": 16}


@pytest.fixture
def parties(make_worker: Any, kind: str) -> list[Any]:
    """Two parties and a dealer, reached in each of the three ways."""
    return [make_worker(name, kind) for name in ("alice", "bob", "carol")]


@pytest.fixture(scope="module")
def processes() -> Iterator[list[Any]]:
    workers = [start(f"profiling-{name}") for name in ("alice", "bob", "carol")]
    yield workers
    end(*workers)


def share(x: torch.Tensor, parties: list[Any]) -> Any:
    return x.fix_precision(**BINARY).share(*parties[:2], crypto_provider=parties[2])


def network(parties: list[Any]) -> Any:
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    return model.fix_precision(**BINARY).share(*parties[:2], crypto_provider=parties[2])


def train(model: nn.Module, x: Any, y: Any) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.125)
    F.mse_loss(model(x), y).backward()
    optimizer.step()


def by_name(lines: Any) -> dict[str, Any]:
    return {line.name: line for line in lines}


def test_a_training_step_by_call_operation_module_and_protocol(parties: list[Any]) -> None:
    model, x, y = network(parties), share(torch.randn(3, 4), parties), share(torch.randn(3, 2), parties)
    with sy.mpc.count() as counted, sy.mpc.profile(show=False) as p:
        train(model, x, y)
        F.relu(x).get()  # waits for everything before it
    calls = by_name(p.lines())
    assert calls["relu"].calls >= 2 and calls["relu"].rounds == 14
    assert calls["linear"].rounds == 4 and calls["gradient of linear"].rounds == 6
    assert calls["add_"].runs > 0 and calls["mse_loss"].bytes > 0
    modules = by_name(p.lines("module"))
    assert modules["0 (Linear)"].rounds == 2 and modules["2 (Linear), backward"].rounds == 4
    assert modules["1 (ReLU)"].rounds == 7 and "SGD.step" in modules
    assert by_name(p.lines("operation"))["addmm"].rounds == 4
    assert by_name(p.lines("protocol"))["product"].rounds >= 8
    for by in ("call", "operation", "module", "protocol"):
        lines = p.lines(by)
        assert sum(line.rounds for line in lines) == counted.rounds == p.total.rounds
        assert sum(line.bytes for line in lines) == counted.bytes
        assert sum(line.dealt for line in lines) == counted.dealt
        assert sum(line.runs for line in lines) == counted.runs
    assert 0 < p.total.seconds <= p.seconds
    assert not cost_meter.meters and not observers.state.watchers


def test_the_table_is_printed_and_can_be_shown_again(make_worker: Any, capsys: pytest.CaptureFixture[str]) -> None:
    parties = [make_worker(name) for name in ("alice", "bob", "carol")]
    x = share(torch.randn(3, 4), parties)
    with sy.mpc.profile() as p:
        torch.relu(x * x)
    shown = capsys.readouterr().out
    assert shown == f"{p!r}\n"
    head, columns, _, *rows = shown.splitlines()
    assert head.startswith("2 operations in ") and columns.split()[:2] == ["calls", "time"]
    assert sorted(row.split()[0] for row in rows) == ["all", "mul", "relu"]
    assert "100%" in rows[-1] and "22%" in shown and "78%" in shown  # 2 rounds and 7 of 9
    assert "<table" in p._repr_html_() and "relu" in p._repr_html_()
    with sy.mpc.profile(show=False):
        x + 1
    with pytest.raises(ZeroDivisionError), sy.mpc.profile():
        x / 0
    assert capsys.readouterr().out == ""
    assert not cost_meter.meters


def test_nested_operations_are_counted_once(make_worker: Any) -> None:
    parties = [make_worker(name) for name in ("alice", "bob", "carol")]
    x = share(torch.rand(3, 4), parties)
    with sy.mpc.count() as counted, sy.mpc.profile("operation", show=False) as p:
        torch.baddbmm(x.view(1, 3, 4), x.view(1, 3, 4) @ x.t().view(1, 4, 3), x.view(1, 3, 4))
        torch.addcdiv(x, x, x + 1)
    assert p.total.rounds == counted.rounds and p.total.seconds <= p.seconds


def test_plain_fixed_precision_costs_time_alone() -> None:
    with sy.mpc.profile(show=False) as p:
        torch.tensor([1.5]).fix_precision() * 2
    (line,) = p.lines()
    assert (line.name, line.calls, line.runs, line.rounds) == ("mul", 1, 0, 0) and line.seconds > 0


def test_programs_are_run_operation_by_operation(make_worker: Any) -> None:
    parties = [make_worker(name) for name in ("alice", "bob", "carol")]
    model, x = network(parties), share(torch.randn(3, 4), parties)
    with torch.no_grad(), sy.mpc.profile(show=False) as p:
        sy.mpc.as_program(model)(x)
    assert {"linear", "relu"} == set(by_name(p.lines()))
    with torch.no_grad(), sy.mpc.count() as counted:
        sy.mpc.as_program(model)(x)
    assert counted.runs == 1


def test_unknown_groupings_are_refused() -> None:
    with pytest.raises(SyftError, match="call, operation, module and protocol"):
        sy.mpc.profile(by="colour")
    with sy.mpc.profile(show=False) as p:
        pass
    with pytest.raises(SyftError, match="got 'size'"):
        p.table("size")
    assert p.lines() == [] and "0 operations" in repr(p)


def test_profiles_in_each_other(make_worker: Any) -> None:
    parties = [make_worker(name) for name in ("alice", "bob", "carol")]
    x = share(torch.randn(3), parties)
    with sy.mpc.profile(show=False) as outer:
        x * x
        with sy.mpc.profile(show=False) as inner, sy.mpc.validate() as v:
            torch.relu(x)
    assert set(by_name(inner.lines())) == {"relu"} and set(by_name(outer.lines())) == {"mul", "relu"}
    assert inner.total.rounds == 7 and outer.total.rounds == 9 and len(v.checks) == 1


@pytest.mark.skipif(os.name != "posix", reason="sockets are handed to processes")
@pytest.mark.timeout(300)
class TestProcesses:
    """Parties in processes of their own count for themselves, and are asked when the block ends."""

    def test_costs_are_those_of_lockstep(self, processes: list[Any], make_worker: Any) -> None:
        here = [make_worker(name) for name in ("alice", "bob", "carol")]
        profiles = []
        for parties in (here, processes):
            x = share(torch.randn(3, 4), parties)
            with sy.mpc.count() as counted, sy.mpc.profile(show=False) as p:
                torch.relu(x * x) @ x.t()
            profiles.append(
                [
                    (line.name, line.calls, line.runs, line.rounds, line.bytes, line.dealt)
                    for line in sorted(p.lines(), key=lambda line: line.name)
                ]
            )
            assert (counted.rounds, counted.bytes, counted.dealt) == (p.total.rounds, p.total.bytes, p.total.dealt)
            assert all(line.seconds > 0 for line in p.lines())
        assert profiles[0] == profiles[1]
        assert "at the slowest party" in repr(p)
        assert not cost_meter._recording

    def test_each_count_starts_at_zero(self, processes: list[Any]) -> None:
        x = share(torch.randn(2), processes)
        x * x
        for _ in range(2):
            with sy.mpc.count() as counted:
                x * x
                with sy.mpc.count() as inner:
                    x * x
            assert (inner.runs, inner.rounds, counted.runs, counted.rounds) == (1, 2, 2, 4)

    def test_validation(self, processes: list[Any]) -> None:
        x = share(torch.tensor([1.5, -2.0]), processes)
        with sy.mpc.validate() as v:
            torch.relu(x * x - 3)
        assert not v.report and [check.place.name for check in v.checks] == ["mul", "sub", "relu"]
        large = x * 2**16
        with pytest.raises(DriftError, match="no room"), sy.mpc.validate():
            large * large


def test_the_costs_kept_by_a_worker_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost_meter, "MAX_NOTED", 2)
    notes, cost = cost_meter.CostNotes(), cost_meter.RunCost(0.5, 1, 2, 3, 1)
    notes.add("me", 0, cost)  # nobody asked yet
    notes.begin("me")
    for run in range(3):
        notes.add("me", run, cost)
        notes.add("you", run, cost)
    assert notes.read("me", False) == ((0, 0.5, 1, 2, 3), (1, 0.5, 1, 2, 3))
    assert notes.read("you", True) == () == notes.read("me", True)
    notes.add("me", 9, cost)
    assert notes.read("me", True) == ()
