from __future__ import annotations

import threading
import time

import pytest

from syft.core import byte_budget
from syft.core.byte_budget import ByteBudget, Holding, UserBudgets, ask, spending
from syft.exceptions import ByteBudgetError


def test_all_levels_count_and_a_refusal_takes_nothing():
    node = ByteBudget(100, name="the node")
    alice, bob = ByteBudget(80, node, "alice"), ByteBudget(80, node, "bob")
    alice.take(60)
    with pytest.raises(ByteBudgetError, match="alice may have 80"):
        alice.take(30)
    with pytest.raises(ByteBudgetError, match="the node may have 100"):
        bob.take(50)
    assert (node.taken, alice.taken, bob.taken) == (60, 60, 0)
    assert (alice.left, bob.left, bob.largest) == (20, 40, 80)
    with bob.holding(40):
        assert node.taken == 100
    alice.give(60)
    assert node.taken == alice.taken == bob.taken == 0
    with pytest.raises(ValueError):
        alice.take(-1)


def test_bytes_that_never_fit_are_refused_without_waiting():
    budget = ByteBudget(10)
    began = time.monotonic()
    with pytest.raises(ByteBudgetError):
        budget.take(11, within=30)
    assert time.monotonic() - began < 5


def test_waiting_for_others_to_give_back():
    budget = ByteBudget(10)
    budget.take(8)
    threading.Timer(0.2, budget.give, (8,)).start()
    budget.take(5, within=30)
    assert budget.taken == 5
    with pytest.raises(ByteBudgetError):
        budget.take(8, within=0.1)


def test_many_threads_never_pass_the_limit():
    node = ByteBudget(1000)
    users = [ByteBudget(600, node) for _ in range(4)]
    seen = []

    def work(user):
        for size in range(1, 300):
            try:
                with user.holding(size):
                    seen.append((node.taken, user.taken))
            except ByteBudgetError:
                pass

    threads = [threading.Thread(target=work, args=(user,)) for user in users for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(total for total, _ in seen) <= 1000 and max(own for _, own in seen) <= 600
    assert node.taken == 0 and all(user.taken == 0 for user in users)


def test_the_user_that_holds_most_has_to_go(monkeypatch):
    monkeypatch.setattr(byte_budget, "GRACE", 0.05)
    node = ByteBudget(100)
    alice, bob, eve = (ByteBudget(90, node, name) for name in ("alice", "bob", "eve"))
    gone = []
    frames = {}
    for name, budget, size in (("first", bob, 30), ("second", bob, 30), ("small", eve, 30)):
        frames[name] = Holding(budget, evict=lambda name=name: (gone.append(name), frames[name].release()))
        frames[name].take(size)
        frames[name].begin()
    alice.take(25, within=10)
    assert gone == ["first"] and alice.taken == 25
    # One who would hold as much itself sends nobody away.
    with pytest.raises(ByteBudgetError):
        alice.take(20, within=0.3)
    assert gone == ["first"]
    # Nor does a frame go that is complete.
    frames["second"].complete()
    with pytest.raises(ByteBudgetError):
        ByteBudget(90, node, "carol").take(30, within=0.3)
    assert gone == ["first"]


def test_a_holding_that_follows_a_size():
    budget = ByteBudget(1 << 20)
    held = Holding(budget)
    for size in (1, 1000, 10, 500_000, 20):
        held.follow(size)
        assert budget.taken == held.size >= size
    assert held.size == 20
    with pytest.raises(ByteBudgetError):
        held.follow(2 << 20)
    held.release(for_good=True)
    held.take(5)
    assert budget.taken == held.size == 0


def test_asking_charges_the_request_until_it_ends():
    budget = ByteBudget(100)
    ask(10**12)  # nobody's
    with spending(budget):
        ask(60)
        ask(40)
        assert budget.taken == 100
        with pytest.raises(ByteBudgetError):
            ask(101)
        with spending(None):
            assert budget.taken == 100
    assert budget.taken == 0


def test_users_have_budgets_of_their_own():
    budgets = UserBudgets(100, 60, 10)
    alice = budgets.of("alice")
    assert budgets.of("alice") is alice and budgets.of("bob") is not alice
    assert (alice.limit, budgets.of(None).limit, budgets.strangers.limit) == (60, 100, 10)
    with alice.holding(50), budgets.strangers.holding(10):
        assert budgets.node.taken == 60
