"""sy.mpc.validate: each operation is compared with its plaintext, and deviations are named."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import syft as sy
from syft.core import observers
from syft.exceptions import DriftError, GetNotPermittedError, SyftError
from syft.mpc.tools import plaintext_reference
from syft.workers.access.policy import DenyAll
from tests.helpers.mpc.rows import FORMATS, MATRIX, run_row

aten = torch.ops.aten
BINARY = {"base": 2, "precision_fractional": 16}


@pytest.fixture
def parties(make_worker: Any) -> list[Any]:
    return [make_worker(name) for name in ("alice", "bob", "carol")]


def share(x: torch.Tensor, parties: list[Any], **form: Any) -> Any:
    return x.fix_precision(**(form or BINARY)).share(*parties[:-1], crypto_provider=parties[-1])


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))


def train(model: nn.Module, x: Any, y: Any) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def encrypted_training(parties: list[Any]) -> Any:
    model = network().fix_precision(**BINARY).share(*parties[:-1], crypto_provider=parties[-1])
    return train(model, share(torch.randn(3, 4), parties), share(torch.randn(3, 2), parties))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("shared", [False, True], ids=["plain", "shared"])
def test_no_operation_of_the_matrix_drifts(form: str, shared: bool, parties: list[Any]) -> None:
    drifted: list[Any] = []
    unchecked: set[str] = set()
    for name in list(MATRIX)[:: 9 if shared else 3]:
        with sy.mpc.validate(tolerance=0.05, raises=False) as v:
            run_row(name, parties[:2] if shared else (), parties[2], form)
        drifted += [(name, str(check)) for check in v.report]
        unchecked |= set(v.unchecked)
    assert not drifted
    assert unchecked <= plaintext_reference.UNKNOWN


def test_training_is_checked_forward_and_backward_and_in_place(parties: list[Any]) -> None:
    with sy.mpc.validate() as v:
        encrypted_training(parties)
    places = {(check.place.name, check.place.module) for check in v.checks}
    assert {
        ("linear", "0 (Linear)"), ("relu", "1 (ReLU)"), ("gradient of linear", "2 (Linear)"),
        ("gradient of relu", "1 (ReLU)"), ("mse_loss", ""), ("add_", "SGD.step"),
    } <= places  # fmt: skip
    assert "none drifted" in repr(v) and not v.report
    assert max(check.accumulated for check in v.checks) < 1e-3
    assert not observers.state.watchers


@pytest.fixture
def break_rule(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the rule of an operation give something else than it does."""

    def change(operation: Any, wrong: Any) -> None:
        rule = sy.FixedPrecisionTensor._rules[operation]
        rules = {**sy.FixedPrecisionTensor._rules, operation: lambda *args: wrong(rule(*args))}
        monkeypatch.setattr(sy.FixedPrecisionTensor, "_rules", rules)
        monkeypatch.setattr("syft.core.tensor.rule_cache", {})

    return change


def test_the_first_operation_that_drifts_is_named(parties: list[Any], break_rule: Any) -> None:
    break_rule(aten.relu.default, lambda result: result + 0.5)
    with pytest.raises(DriftError) as raised, sy.mpc.validate():
        encrypted_training(parties)
    text = str(raised.value)
    for part in ("relu", "aten.relu", "1 (ReLU)", "3x5 -> 3x5", "off by 0.5", "drifts"):
        assert part in text
    assert "already" not in text  # its arguments were right
    assert not observers.state.watchers


def test_an_error_of_a_gradient_is_named(parties: list[Any], break_rule: Any) -> None:
    break_rule(aten.threshold_backward.default, lambda result: result + 1)
    with pytest.raises(DriftError, match=r"gradient of relu \(aten.threshold_backward\) in 1 \(ReLU\)"):
        with sy.mpc.validate():
            encrypted_training(parties)


def test_all_reports_are_collected(break_rule: Any) -> None:
    break_rule(aten.neg.default, lambda result: result * -1)
    x = torch.tensor([[1.0, 0.25], [0.5, 3.0]]).fix_precision()
    with sy.mpc.validate(raises=False) as v:
        y = -x
        z = y + 1
        -z
    assert [check.place.operation for check in v.report] == ["neg", "neg"]
    assert v.report[0].where == (0, 0) and (v.report[0].found, v.report[0].meant) == (1.0, -1.0)
    assert v.report[1].carried == 6.0  # z was wrong already when it was negated
    assert "2 drifted" in repr(v) and "neg" in v.table()
    assert "<table" in v._repr_html_() and "neg" in v._repr_html_()


def test_accumulated_errors_are_reported_and_limited_on_request() -> None:
    def many(x: Any) -> Any:
        total = x * 0
        for _ in range(20):
            total = total + x * 0.333
        return total

    x = torch.tensor([0.777]).fix_precision()
    with sy.mpc.validate() as v:
        many(x)
    assert v.checks[-1].accumulated > 3 * max(check.difference for check in v.checks)
    with pytest.raises(DriftError, match="errors have added up"), sy.mpc.validate(accumulated=0.001):
        many(x)


@pytest.mark.parametrize("count", [2, 3])
def test_products_without_room_are_named(count: int, make_worker: Any) -> None:
    parties = [make_worker(f"party{number}") for number in range(count)]
    x = share(torch.tensor([2.0**14, 2.0**15]), [*parties, make_worker("carol")])
    with sy.mpc.validate():
        x * 4
        x[:1] * x[:1]
    with pytest.raises(DriftError, match="no room before it is rescaled: .* below 1.074e[+]09"), sy.mpc.validate():
        x * x
    whole = torch.tensor([2**31]).share(*parties, crypto_provider=make_worker("carol"))
    with pytest.raises(DriftError, match="no room"), sy.mpc.validate():
        whole * whole


def test_a_plaintext_that_is_not_finite_is_named() -> None:
    x = torch.tensor([1.0, 0.0]).fix_precision(**BINARY)
    with pytest.raises(DriftError, match="reciprocal.* not a finite number. At .1."), sy.mpc.validate():
        x.reciprocal()


def test_views_and_writes_are_followed(parties: list[Any]) -> None:
    for x in (torch.arange(6.0).view(2, 3).fix_precision(), share(torch.arange(6.0).view(2, 3), parties)):
        with sy.mpc.validate() as v:
            y = x.clone()
            row, turned = y[0], y.t()
            row += 1.5
            turned[2] = 7
            y.mul_(2)
            turned.sum()
        assert v.checks[-1].accumulated < 1e-2 and v.checks[-1].found == 50.0


def test_random_choices_are_repeated(parties: list[Any]) -> None:
    x = share(torch.ones(50), parties)
    with sy.mpc.validate() as v:
        F.dropout(x, 0.5)
        F.max_pool2d(share(torch.zeros(1, 1, 4, 4), parties), 2)
        share(torch.tensor([[1.0, 3.0, 3.0]]), parties).argmax(1)
        (x > 0).sum()
    assert not v.report and len(v.checks) >= 4


def test_plans_are_checked_operation_by_operation(parties: list[Any]) -> None:
    model = network().fix_precision(**BINARY).share(*parties[:-1], crypto_provider=parties[-1])
    program = sy.mpc.as_program(model)
    with torch.no_grad(), sy.mpc.validate() as v:
        program(share(torch.randn(3, 4), parties))
    assert {"linear", "relu"} <= {check.place.name for check in v.checks}


def test_nothing_is_left_at_the_parties(parties: list[Any], nothing_left: Any) -> None:
    x = share(torch.randn(3), parties)
    with sy.mpc.validate() as v:
        y = torch.relu(x * x)
    held = len(parties[0]._objects)
    del v
    assert held == len(parties[0]._objects) == 2
    del x, y
    nothing_left(*parties)


def test_a_worker_that_keeps_its_shares_refuses(make_worker: Any) -> None:
    alice, bob, carol = (make_worker(name) for name in ("alice", "bob", "carol"))
    x = share(torch.randn(3), [alice, bob, carol])
    bob.policy = DenyAll()
    with pytest.raises(GetNotPermittedError), sy.mpc.validate():
        x + 1


def test_bad_tolerances_are_refused() -> None:
    for tolerance in (0, -1, float("nan")):
        with pytest.raises(SyftError, match="positive"):
            sy.mpc.validate(tolerance=tolerance)
