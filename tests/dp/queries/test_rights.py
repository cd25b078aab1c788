"""Rights, charges and confidentiality of queries about private data at a node."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import TensorDataset

import syft as sy
from syft.dp.queries import QUERY, estimators
from syft.exceptions import BudgetExceededError, GetNotPermittedError, NotPermittedError, PrivacyError
from syft.messaging import message as m
from syft.workers.access.policy import DenyAll
from syft.workers.budget_client import BUDGET
from tests.helpers.attacks.hostile_peer import error_name
from tests.helpers.dp.queries import AGES, MANY, near, settled
from tests.helpers.rights.users import Peer


@pytest.fixture
def peer(clinic):
    """Connects a user who sends messages by hand."""
    made = []

    def peer(name):
        made.append(Peer(clinic, name))
        return made[-1]

    yield peer
    for one in made:
        one.close()


def test_without_a_limit_there_are_no_answers(node, owner):
    pointer = node.search("#ages")[0]
    with pytest.raises(BudgetExceededError, match="no privacy budget"):
        sy.dp.count(pointer, epsilon=0.1)
    with pytest.raises(GetNotPermittedError):
        pointer.get()


def test_results_are_charged_and_end_with_the_budget(node, owner, peer, entries):
    boss = peer("owner")
    boss.send_tensor(AGES.tag("#paid"), "paid", published=True)
    pointer = node.search("#paid")[0]
    owner.budget.set("paid", 1.0)
    for _ in range(4):
        sy.dp.sum(pointer, 0, 100, epsilon=0.25)
    with pytest.raises(BudgetExceededError, match="0 is left"):
        sy.dp.sum(pointer, 0, 100, epsilon=0.25)
    (row,) = sy.dp.budget(node)()
    assert row["left"] == pytest.approx(0, abs=1e-9) and row["releases"] == 4 == len(entries())
    rows = boss.ask(m.ListRightsMessage("audit"))
    charges = [row["allowed"] for row in rows if row["action"] == "charge" and row["object"] == "paid"]
    assert charges == [True] * 4 + [False]


def test_derived_data_can_not_be_queried(node, ages, entries):
    """A person may be in many rows of it, and a row may tell of many."""
    for derived in (ages * 1, ages.clone(), ages.repeat(1000), ages[:50], ages.cumsum(0), ages.copy()):
        with pytest.raises(NotPermittedError, match="Query the published data"):
            sy.dp.sum(derived, 0, 100, epsilon=0.1)
    mixed = torch.zeros(100).send(node)
    mixed += ages
    with pytest.raises(NotPermittedError, match="Query the published data"):
        sy.dp.sum(mixed, 0, 100, epsilon=0.1)
    assert entries() == []


def test_users_set_the_budgets_of_their_data(peer, owner, entries):
    alice, carol = peer("alice"), peer("carol")
    alice.send_tensor(torch.ones(10), "hers", published=True)
    asked = settled("count", epsilon=MANY)
    assert error_name(carol.call(QUERY, "count", ("object", "hers"), **asked)) == "BudgetExceededError"
    assert error_name(carol.call(BUDGET, "set", data="hers", epsilon=1e5)) == "NotPermittedError"
    assert error_name(alice.call(BUDGET, "set", data="ages", epsilon=1e5)) == "NotPermittedError"
    assert alice.call(BUDGET, "set", data="hers", epsilon=1e5)[0]["owner"] == "alice"
    assert carol.call(QUERY, "count", ("object", "hers"), **asked) == 10
    assert alice.call(QUERY, "count", ("object", "hers"), **asked) == 10
    assert [row["user"] for row in entries()] == ["carol"]


def test_own_and_readable_data_cost_nothing(node, peer, owner, entries):
    mine = torch.ones(3).send(node)
    assert sy.dp.sum(mine * 2, 0, 5, epsilon=MANY) == near(6, 5)
    boss, good = peer("owner"), settled("sum", lower=0, upper=100, epsilon=MANY)
    assert boss.call(QUERY, "sum", ("object", "table"), **{**good, "column": 0}) == near(4950, 100)
    boss.share("table", public=True)
    assert sy.dp.count(node.search("#table")[0], epsilon=MANY) == 100
    boss.share("table")
    assert entries() == []


def test_a_policy_of_an_ordinary_worker_is_asked(bob):
    pointer = AGES.send(bob)
    assert sy.dp.sum(pointer * 2, 0, 200, epsilon=MANY) == near(9900, 200)
    assert sy.dp.mean(AGES, 0, 100, epsilon=MANY) == near(49.5, 100 / 100)
    bob.policy = DenyAll()
    with pytest.raises(GetNotPermittedError):
        sy.dp.count(pointer, epsilon=0.1)
    bob.policy = sy.workers.policy.ALLOW_ALL


def test_data_sets_have_budgets_by_their_keys(node, owner, entries):
    owner.add_dataset(TensorDataset(AGES.clone().unsqueeze(1), (AGES > 50).long()), "study")
    part = sy.dp.dataset(node, "study", "targets")
    with pytest.raises(BudgetExceededError, match="dataset:study"):
        sy.dp.mean(part, 0, 1, epsilon=MANY)
    owner.budget.set("dataset:study", 1e5)
    assert sy.dp.mean(part, 0, 1, epsilon=MANY) == near(0.49, 1 / 100)
    assert sy.dp.mean(sy.dp.dataset(node, "study"), 0, 100, epsilon=MANY).tolist() == [near(49.5, 100 / 100)]
    assert {tuple(row["data"]) for row in entries()} == {("dataset:study",)}
    owner.remove_dataset("study")


def test_publishing_again_continues_the_same_account(node, owner, peer):
    boss = peer("owner")
    boss.send_tensor(AGES.tag("#account"), "account", published=True)
    owner.budget.set("account", 1.0)
    sy.dp.count(node.search("#account")[0], epsilon=0.75)
    boss.ask(m.ForceObjectDeleteMessage("account"))
    boss.send_tensor(torch.ones(5).tag("#again"), "account", published=True)
    with pytest.raises(BudgetExceededError, match=r"0\.25 is left"):
        sy.dp.count(node.search("#again")[0], epsilon=0.5)


def test_errors_while_computing_are_not_reported(bob, monkeypatch):
    def fail(*args):
        raise RuntimeError("the value is 42.5")

    monkeypatch.setattr(estimators.Sum, "answer", fail)
    with pytest.raises(PrivacyError) as error:
        sy.dp.sum(AGES.send(bob), 0, 1, epsilon=0.5)
    assert "42.5" not in str(error.value) and error.value.__cause__ is None
