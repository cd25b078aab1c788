"""Who may ask about private data, what is paid for, and what is not told: questions under a policy."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import TensorDataset

import syft as sy
from syft.core.references import Ref
from syft.dp import answering, statistics
from syft.dp.deputy import QUERY
from syft.exceptions import BudgetExceededError, GetNotPermittedError, NotPermittedError, PrivacyError
from syft.workers.budget import BUDGET
from syft.workers.policy import DenyAll, charge
from syft.workers.provenance import rights_of
from tests.attacks.hostile import error_name
from tests.dp.asking import AGES, MANY, near, settled
from tests.grid.rights.people import Peer


def test_without_a_limit_there_are_no_answers(node):
    pointer = node.search("#ages")[0]
    with pytest.raises(BudgetExceededError, match="no privacy budget"):
        sy.dp.count(pointer, epsilon=0.1)
    with pytest.raises(GetNotPermittedError):
        pointer.get()


def test_answers_are_paid_for_and_end_with_the_budget(node, monkeypatch):
    pointer = node.search("#ages")[0]
    node.policy.budget.set(node, "ages", 1.0)
    for _ in range(4):
        sy.dp.sum(pointer, 0, 100, epsilon=0.25)
    monkeypatch.setattr(answering, "compute", lambda *args: pytest.fail("nothing is computed"))
    with pytest.raises(BudgetExceededError, match="0 is left"):
        sy.dp.sum(pointer, 0, 100, epsilon=0.25)
    (row,) = sy.dp.budget(node)()
    assert row["left"] == pytest.approx(0, abs=1e-9) and row["releases"] == 4
    assert len(sy.dp.budget(node).entries()) == 4
    charges = [row["allowed"] for row in node.policy.audit.rows() if row["action"] == "charge"]
    assert charges == [True] * 4 + [False]


def test_what_derives_from_data_can_not_be_asked_about(node, ages):
    """A person may be in many rows of it, and a row may tell of many."""
    copies = [ages * 1, ages.clone(), ages.repeat(1000), ages[:50], ages.cumsum(0), ages.copy()]
    for derived in copies:
        with pytest.raises(NotPermittedError, match="published data itself"):
            sy.dp.sum(derived, 0, 100, epsilon=0.1)
    mixed = torch.zeros(100).send(node)
    mixed += ages
    with pytest.raises(NotPermittedError, match="published data itself"):
        sy.dp.sum(mixed, 0, 100, epsilon=0.1)
    published = ages + 1
    published.child.garbage_collect_data = False  # a published result is no data set either
    with pytest.raises(NotPermittedError, match="published data itself"):
        sy.dp.sum(published, 0, 100, epsilon=0.1)
    assert node.policy.budget.entries() == []


def test_training_on_what_derives_from_data_can_not_be_paid_for(node, ages):
    """Whoever runs a mechanism asks with what its data derives from: repeated rows are no rows of people."""
    alice, event = Peer(node, "alice"), {"mechanism": "dp_sgd", "noise_multiplier": 1.0, "rate": 0.1, "steps": 10}
    repeated = alice.keep("torch.Tensor.repeat", Ref("ages"), 3)
    rights = {name: rights_of(node, name, node._objects[name]).sources for name in ("ages", "table", repeated.id)}
    with pytest.raises(NotPermittedError, match="published data itself"):
        charge(node, alice.session, rights[repeated.id], event, "training")
    with pytest.raises(BudgetExceededError):
        charge(node, alice.session, rights["ages"] | rights["table"], event, "training")
    assert node.policy.budget.entries() == []
    assert charge(node, alice.session, rights["ages"], event, "training") == rights["ages"]
    node.policy.share(node, "table", allowed_users=["alice"])
    both = rights["ages"] | rights["table"]
    assert charge(node, alice.session, both, event, "training") == rights["ages"], "what is open costs nothing"
    assert charge(node, Peer(node, "olga", role="owner").session, both, event, "training") == frozenset()
    assert len(node.policy.budget.entries()) == 2


def test_who_publishes_data_sets_its_budget(node):
    alice, carol = Peer(node, "alice"), Peer(node, "carol")
    alice.send_tensor(torch.ones(10), "hers", published=True)
    asked = settled("count", epsilon=MANY)
    assert error_name(carol.call(QUERY, "count", ("object", "hers"), **asked)) == "BudgetExceededError"
    assert error_name(carol.call(BUDGET, "set", data="hers", epsilon=1e5)) == "NotPermittedError"
    assert error_name(alice.call(BUDGET, "set", data="ages", epsilon=1e5)) == "NotPermittedError"
    assert alice.call(BUDGET, "set", data="hers", epsilon=1e5)[0]["owner"] == "alice"
    assert carol.call(QUERY, "count", ("object", "hers"), **asked) == 10
    assert alice.call(QUERY, "count", ("object", "hers"), **asked) == 10
    assert [row["user"] for row in node.policy.budget.entries()] == ["carol"]


def test_ones_own_and_open_data_cost_nothing(node, ages):
    mine = torch.ones(3).send(node)
    assert sy.dp.sum(mine * 2, 0, 5, epsilon=MANY) == near(6, 5)
    owner = Peer(node, "olga", role="owner")
    good = settled("sum", lower=0, upper=100, epsilon=MANY)
    assert owner.call(QUERY, "sum", ("object", "table"), **{**good, "column": 0}) == near(4950, 100)
    node.policy.share(node, "table", public=True)
    assert sy.dp.count(node.search("#table")[0], epsilon=MANY) == 100
    assert node.policy.budget.entries() == []


def test_a_policy_without_a_ledger_lets_nothing_out(node):
    pointer = node.search("#ages")[0]
    node.policy = DenyAll()
    with pytest.raises(GetNotPermittedError):
        sy.dp.count(pointer, epsilon=0.1)


def test_in_a_sandbox_there_is_no_ledger(bob):
    pointer = AGES.send(bob)
    assert sy.dp.sum(pointer * 2, 0, 200, epsilon=MANY) == near(9900, 200)
    assert sy.dp.mean(AGES, 0, 100, epsilon=MANY) == near(49.5, 100 / 100)


def test_data_sets_have_budgets_by_their_keys(node):
    node.add_dataset(TensorDataset(AGES.clone().unsqueeze(1), (AGES > 50).long()), "study")
    part = sy.dp.dataset(node, "study", "targets")
    with pytest.raises(BudgetExceededError, match="dataset:study"):
        sy.dp.mean(part, 0, 1, epsilon=MANY)
    node.policy.budget.set(node, "dataset:study", 1e5)
    assert sy.dp.mean(part, 0, 1, epsilon=MANY) == near(0.49, 1 / 100)
    assert sy.dp.mean(sy.dp.dataset(node, "study"), 0, 100, epsilon=MANY).tolist() == [near(49.5, 100 / 100)]
    assert {tuple(row["data"]) for row in node.policy.budget.entries()} == {("dataset:study",)}


def test_who_has_no_name_has_no_budget(node, ages):
    stranger = Peer(node, None)
    answer = stranger.call(QUERY, "count", ("object", "ages"), **settled("count", epsilon=0.1))
    assert error_name(answer) == "NotPermittedError"


def test_publishing_anew_goes_on_with_the_same_account(node):
    node.policy.budget.set(node, "ages", 1.0)
    sy.dp.count(node.search("#ages")[0], epsilon=0.75)
    node.object_store.remove("ages")
    again = torch.ones(5).tag("#again")
    again.id = "ages"
    node.load_data([again])
    with pytest.raises(BudgetExceededError, match=r"0\.25 is left"):
        sy.dp.count(node.search("#again")[0], epsilon=0.5)


def test_what_goes_wrong_while_computing_is_not_told(node, ages, monkeypatch):
    def fail(*args):
        raise RuntimeError("the value is 42.5")

    monkeypatch.setattr(statistics.Sum, "answer", fail)
    with pytest.raises(PrivacyError) as told:
        sy.dp.sum(ages, 0, 1, epsilon=0.5)
    assert "42.5" not in str(told.value) and told.value.__cause__ is None
    assert len(node.policy.budget.entries()) == 1, "it is paid for: that it failed may tell something"
