"""The list of plans of a protocol is its own: changes before deploy count."""

from __future__ import annotations

import pytest
import torch

import syft as sy

ONE = torch.tensor([1.0])
hook = sy.TorchHook(torch)


def add(number):
    return sy.Plan(forward_func=lambda x: x + number, name=f"add {number}").build(ONE)


def double():
    return sy.Plan(forward_func=lambda x: x * 2, name="double").build(ONE)


@pytest.fixture
def protocol():
    return sy.Protocol([("first", add(1)), ("second", double()), ("third", add(3))])


def test_pr1_a_replaced_name_counts(protocol, workers):
    alice, bob = workers
    protocol.plans[2] = ("first", protocol.plans[2][1])
    assert protocol.deploy(alice, bob) is protocol
    assert [worker for worker, _ in protocol.plans] == [alice, bob, alice]
    assert all(isinstance(plan, sy.PointerPlan) for _, plan in protocol.plans)
    result = protocol.run(ONE)
    assert result.location is alice and result.get().item() == 7


def test_pr1_a_replaced_plan_counts(protocol, workers):
    alice, bob = workers
    protocol.plans[1] = ("second", add(10))
    protocol.deploy(alice, bob, alice)
    assert protocol.run(ONE).get().item() == 15


def test_pr1_the_list_can_grow_shrink_and_change_its_order(protocol, workers):
    alice, bob = workers
    plans = protocol.plans
    plans.append(("first", double()))
    del plans[2]
    plans.reverse()
    assert plans is protocol.plans and [name for name, _ in plans] == ["first", "second", "first"]
    assert protocol.deploy(alice, bob).run(ONE).get().item() == 5
    assert plans is protocol.plans


def test_pr1_the_list_can_be_assigned(workers):
    alice, bob = workers
    protocol = sy.Protocol()
    protocol.plans = [("a", add(1)), (bob, double())]
    assert protocol.deploy(alice).run(ONE).get().item() == 4


def test_pr1_the_list_is_not_that_of_the_caller(workers):
    alice, bob = workers
    given = [("a", add(1)), ("b", double())]
    protocol = sy.Protocol(given)
    given.clear()
    protocol.deploy(alice, bob)
    assert protocol.run(ONE).get().item() == 4 and given == []


def test_pr1_same_names_need_one_worker(workers):
    alice, _ = workers
    protocol = sy.Protocol([("only", add(1)), ("only", double())]).deploy(alice)
    assert [worker for worker, _ in protocol.plans] == [alice, alice] and protocol.run(ONE).get().item() == 4


def test_pr1_one_worker_for_each_plan(workers):
    alice, bob = workers
    protocol = sy.Protocol([("same", add(1)), ("same", double())]).deploy(alice, bob)
    assert [worker for worker, _ in protocol.plans] == [alice, bob]
    result = protocol.run(ONE)
    assert result.location is bob and result.get().item() == 4
    sent = sy.Protocol([("x", add(1)), (bob, double()), ("x", add(2))]).deploy(alice, alice)
    assert [worker for worker, _ in sent.plans] == [alice, bob, alice] and sent.run(ONE).get().item() == 6


def test_pr1_wrong_numbers_of_workers_and_wrong_entries_are_refused(protocol, alice, bob):
    with pytest.raises(RuntimeError, match=r"needs 3 workers \(first, second, third\), got 2"):
        protocol.deploy(alice, bob)
    protocol.plans[2] = ("first", protocol.plans[2][1])
    with pytest.raises(RuntimeError, match=r"needs 2 workers \(first, second\), or 3, one for each plan, got 1"):
        protocol.deploy(alice)
    protocol.plans[0] = "not a pair"
    with pytest.raises(ValueError, match="pairs"):
        protocol.deploy(alice, bob)
    protocol.plans[0] = ("first", print)
    with pytest.raises(ValueError, match="needs plans"):
        protocol.deploy(alice, bob)


def test_pr1_changes_reach_bytes_copies_and_texts(protocol, workers):
    alice, bob = workers
    protocol.plans[2] = ("first", add(30))
    assert "first: add 30" in repr(protocol) and "add 30" in protocol._repr_html_()
    for other in (sy.deserialize(sy.serialize(protocol)), protocol.copy()):
        assert [name for name, _ in other.plans] == ["first", "second", "first"]
        assert other.deploy(alice, bob).run(ONE).get().item() == 34


def test_pr1_a_run_shows_the_pointers_of_plans_that_it_sent(workers):
    alice, bob = workers
    protocol = sy.Protocol([(alice, add(1)), (bob, double())])
    assert all(isinstance(plan, sy.Plan) for _, plan in protocol.plans)
    for _ in range(2):
        assert protocol.run(ONE).get().item() == 4
        assert all(isinstance(plan, sy.PointerPlan) for _, plan in protocol.plans)
    protocol.plans[1] = (alice, add(5))
    assert protocol.run(ONE).get().item() == 7
