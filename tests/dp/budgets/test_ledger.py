"""The ledger: composition, refusals, concurrent charges, and charges after a restart."""

from __future__ import annotations

import math
import threading

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from syft.dp.accounting import privacy_loss
from syft.dp.accounting.privacy_loss import LossAccount, compacted, event_of
from syft.dp.budgets.ledger import EACH, Ledger
from syft.dp.budgets.ledger_backend import MemoryLedgerBackend
from syft.exceptions import BudgetExceededError
from syft.grid.storage import open_storage
from tests.helpers.grid import postgres

LAPLACE = {"mechanism": "laplace", "epsilon": 0.25}


def gaussian(noise, **more):
    return {"mechanism": "gaussian", "noise_multiplier": noise, **more}


def sgd(noise=1.0, rate=0.01, steps=100):
    return {"mechanism": "dp_sgd", "noise_multiplier": noise, "rate": rate, "steps": steps, "delta": 1e-5}


@pytest.fixture
def ledger():
    made = Ledger(clock=lambda: 1000.0)
    made.set_limit(1.0, 1e-5, data="people")
    return made


def left(ledger, **which):
    (row,) = [row for row in ledger.standing() if all(row[name] == value for name, value in which.items())]
    return row["left"]


def test_losses_of_laplace_add_up_to_the_limit_exactly(ledger):
    for number in range(4):
        entry = ledger.charge("alice", ["people"], LAPLACE, "sum")
        assert (entry["number"], entry["user"], entry["event"]) == (number + 1, "alice", LAPLACE)
    assert left(ledger, data="people") == pytest.approx(0, abs=1e-9)
    before = ledger.standing(), ledger.entries()
    with pytest.raises(BudgetExceededError, match=r"0 is left, and this needs 0\.25.*node budget set"):
        ledger.charge("alice", ["people"], LAPLACE)
    with pytest.raises(BudgetExceededError):
        ledger.charge("bob", ["people"], {"mechanism": "pure", "epsilon": 1e-6})
    assert (ledger.standing(), ledger.entries()) == before


def test_three_tenths_are_three_tenths():
    ledger = Ledger()
    ledger.set_limit(0.3, data="people")
    for _ in range(3):
        ledger.charge("alice", ["people"], {"mechanism": "laplace", "epsilon": 0.1})
    with pytest.raises(BudgetExceededError):
        ledger.charge("alice", ["people"], {"mechanism": "laplace", "epsilon": 1e-6})


def test_gaussian_noise_composes_like_the_reference():
    ledger = Ledger()
    ledger.set_limit(50.0, 1e-5, data="people")
    # There, Gaussian noise is always in units of what one row gives, of which replacing moves two.
    oracle = PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE, 1e-3)
    for _ in range(10):
        ledger.charge("alice", ["people"], gaussian(4.0, count=2))
        ledger.charge("alice", ["people"], sgd())
    oracle.compose(dp_accounting.GaussianDpEvent(8.0), 20)
    oracle.compose(dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0)), 1000)
    assert oracle.get_epsilon(1e-5) <= ledger.spent("people", delta=1e-5) <= 1.15 * oracle.get_epsilon(1e-5)
    # Twenty releases cost far less together than twenty times one of them.
    alone = LossAccount().after(*event_of(gaussian(4.0))).epsilon(1e-5)
    assert ledger.spent("people", delta=1e-5) < 20 * alone


def test_gaussian_noise_has_no_room_where_delta_is_zero():
    ledger = Ledger()
    ledger.set_limit(10.0, data="people")
    with pytest.raises(BudgetExceededError, match="delta 0 has no room"):
        ledger.charge("alice", ["people"], gaussian(5.0))
    ledger.charge("alice", ["people"], LAPLACE)
    ledger.set_limit(10.0, 1e-6, data="people")
    ledger.charge("alice", ["people"], gaussian(5.0))
    ledger.set_limit(10.0, 0.0, data="people")  # what was spent can't be said at this delta any more
    (row,) = ledger.standing()
    assert row["left"] == 0 and row["spent"] == math.inf
    with pytest.raises(BudgetExceededError, match="0 is left"):
        ledger.charge("alice", ["people"], LAPLACE)


def test_without_a_limit_nothing_is_charged():
    ledger = Ledger()
    ledger.set_limit(100.0)  # in all, and for alice: that opens no data set
    ledger.set_limit(100.0, user="alice")
    with pytest.raises(BudgetExceededError, match=r"no privacy budget.*--data people --user alice"):
        ledger.charge("alice", ["people"], LAPLACE)
    ledger.set_limit(1.0, data="people")
    ledger.charge("alice", ["people"], LAPLACE)
    with pytest.raises(BudgetExceededError, match="'others'"):  # one of two has a limit: not enough
        ledger.charge("alice", ["people", "others"], LAPLACE)
    assert ledger.remove_limit("people") and not ledger.remove_limit("people")
    with pytest.raises(BudgetExceededError):
        ledger.charge("alice", ["people"], LAPLACE)
    assert ledger.spent("people") == pytest.approx(0.25), "what was spent stays spent"


@pytest.mark.parametrize(
    "limits",
    [
        [{"data": "people"}],
        [{"data": "people", "user": "alice"}],
        [{"data": "people", "user": EACH}],
        [{"data": "people", "epsilon": 9.0}, {"user": "alice"}],
        [{"data": "people", "epsilon": 9.0}, {"user": EACH}],
        [{"data": "people", "epsilon": 9.0}, {}],
    ],
)
def test_each_kind_of_limit_stops(limits):
    ledger = Ledger()
    for limit in limits:
        ledger.set_limit(limit.pop("epsilon", 0.5), **limit)
    ledger.charge("alice", ["people"], LAPLACE), ledger.charge("alice", ["people"], LAPLACE)
    with pytest.raises(BudgetExceededError):
        ledger.charge("alice", ["people"], LAPLACE)
    bounds_bob = limits[-1].get("user") is None
    if limits == [{"data": "people", "user": "alice"}] or bounds_bob:
        with pytest.raises(BudgetExceededError):
            ledger.charge("bob", ["people"], LAPLACE)
    else:
        ledger.charge("bob", ["people"], LAPLACE)


def test_a_users_own_limit_replaces_the_limit_of_each_user(ledger):
    ledger.set_limit(0.25, data="people", user=EACH)
    ledger.set_limit(0.5, data="people", user="alice")
    ledger.charge("bob", ["people"], LAPLACE), ledger.charge("alice", ["people"], LAPLACE)
    ledger.charge("alice", ["people"], LAPLACE)
    with pytest.raises(BudgetExceededError, match="for user 'bob'"):
        ledger.charge("bob", ["people"], LAPLACE)
    with pytest.raises(BudgetExceededError, match="for user 'alice'"):
        ledger.charge("alice", ["people"], LAPLACE)
    rows = {(row["data"], row["user"]): row["left"] for row in ledger.standing("bob")}
    assert rows == {("people", None): pytest.approx(0.25), ("people", EACH): 0.0}
    assert left(ledger, user=EACH) == 0.0 and left(ledger, user="alice") == 0.0
    ledger.set_limit(0.5, data="people", user=EACH)
    assert left(ledger, user=EACH) == pytest.approx(0.25), "a user with an own limit is not among each user"


def test_a_user_does_not_see_the_charges_of_others(ledger):
    ledger.set_limit(1.0, 0.0, data="people")
    ledger.charge("alice", ["people"], LAPLACE, "count")
    (bob,), (alice,) = ledger.standing("bob"), ledger.standing("alice")
    assert (bob["spent"], bob["releases"], bob["left"]) == (0.0, 0, pytest.approx(0.75))
    assert (alice["spent"], alice["releases"]) == (pytest.approx(0.25), 1)


def test_charges_before_a_limit_was_set_count(ledger):
    ledger.set_limit(1.0, data="others")
    ledger.charge("alice", ["people", "others"], LAPLACE)
    ledger.set_limit(0.4)
    ledger.set_limit(0.6, user="alice")
    assert left(ledger, data=None, user=None) == pytest.approx(0.15), "one release, however many data sets"
    assert left(ledger, user="alice") == pytest.approx(0.35) and left(ledger, data="others") == pytest.approx(0.75)


def test_entries_are_of_one_user_or_all(ledger):
    for user in ("alice", "bob", "alice"):
        ledger.charge(user, ["people"], LAPLACE, "sum")
    assert [row["user"] for row in ledger.entries()] == ["alice", "bob", "alice"]
    assert [row["number"] for row in ledger.entries("alice")] == [1, 2]
    assert [row["number"] for row in ledger.entries(after=1, limit=1)] == [2]
    assert ledger.entries("nobody") == [] and ledger.entries("alice")[0]["at"] == 1000.0


FORGED = [
    None, [], {}, {"mechanism": "none"}, {"mechanism": "laplace"}, {"mechanism": ["laplace"], "epsilon": 1.0},
    {"mechanism": "laplace", "epsilon": 1.0, "discount": 1.0}, {"mechanism": "gaussian", "epsilon": 0.1},
    *({"mechanism": "laplace", "epsilon": bad} for bad in (0, -1, math.nan, math.inf, True, "1", None, 10**400)),
    *({"mechanism": "laplace", "epsilon": 0.1, "count": bad} for bad in (0, -1, 1.0, True, 10**10)),
    *(gaussian(bad) for bad in (0, -1.0, math.nan, math.inf, True)),
    *(sgd(rate=bad) for bad in (0, -0.1, 1.5, math.nan, True)), *(sgd(steps=bad) for bad in (0, -5, 1.5, True)),
]  # fmt: skip


@pytest.mark.parametrize("event", FORGED)
def test_invalid_events_are_refused(ledger, event):
    with pytest.raises(ValueError, match="."):
        ledger.charge("alice", ["people"], event)
    assert ledger.spent("people") == 0.0 and ledger.entries() == []


@pytest.mark.parametrize("limit", [{"epsilon": -1}, {"epsilon": math.nan}, {"epsilon": math.inf}, {"epsilon": True},
                                   {"epsilon": 1.0, "delta": 1.0}, {"epsilon": 1.0, "delta": -1e-9}, {"epsilon": "1"}])  # fmt: skip
def test_invalid_limits_are_refused(ledger, limit):
    with pytest.raises(ValueError, match="."):
        ledger.set_limit(**limit, data="people")
    assert [row.epsilon for row in ledger.limits()] == [1.0]


def test_a_charge_needs_a_user_and_data(ledger):
    for user, data in (("alice", []), (None, ["people"]), ("alice", [None])):
        with pytest.raises((ValueError, TypeError)):
            ledger.charge(user, data, LAPLACE)


def test_a_limit_of_zero_stops_everything(ledger):
    ledger.set_limit(0.0, data="people", user="alice")
    with pytest.raises(BudgetExceededError):
        ledger.charge("alice", ["people"], {"mechanism": "laplace", "epsilon": 1e-6})


# --- many small ones ------------------------------------------------------------------------------------------

events = st.one_of(
    st.floats(1e-4, 2).map(lambda e: {"mechanism": "laplace", "epsilon": e}),
    st.floats(0.5, 50).map(gaussian),
    st.tuples(st.floats(0.5, 20), st.floats(1e-4, 1), st.integers(1, 50)).map(lambda args: sgd(*args)),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(events, min_size=1, max_size=12))
def test_an_account_that_is_made_smaller_never_gets_cheaper(found):
    account = LossAccount()
    for event in found:
        account = account.after(*event_of(event))
    before = privacy_loss.MAX_EVENTS
    privacy_loss.MAX_EVENTS = 0
    try:
        small = compacted(account.accountant)
        again = compacted(small)
    finally:
        privacy_loss.MAX_EVENTS = before
    assert small.epsilon(1e-6) >= account.accountant.epsilon(1e-6) * (1 - 1e-12)
    assert again.epsilon(1e-6) == pytest.approx(small.epsilon(1e-6), rel=1e-6), "once is enough"


def test_many_small_queries_keep_the_account_bounded_and_its_loss_exact():
    ledger = Ledger()
    ledger.set_limit(1.0, data="people")
    done = 0
    with pytest.raises(BudgetExceededError):
        for done in range(400):
            ledger.charge("alice", ["people"], {"mechanism": "laplace", "epsilon": 0.004 + done * 1e-7})
    assert done == pytest.approx(250, abs=2)
    with ledger._books.together() as page:
        account = page.get("budget accounts", '["people", null]')
    assert account["releases"] == done and len(account["accountant"]["events"]) <= privacy_loss.MAX_EVENTS + 1


# --- at the same time, and after a crash ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "embedded", "postgres"])
def test_together_they_can_not_overspend(kind, tmp_path):
    place = postgres.server().database() if kind == "postgres" else tmp_path / "store"
    storage = None if kind == "memory" else open_storage(place)
    ledger = Ledger(MemoryLedgerBackend() if storage is None else storage.records)
    ledger.set_limit(1.0, 1e-6, data="people")
    paid, gate = [], threading.Barrier(8)

    def ask(user):
        gate.wait(60)
        for _ in range(3):
            try:
                paid.append(ledger.charge(user, ["people"], {"mechanism": "laplace", "epsilon": 0.1}))
            except BudgetExceededError:
                return

    threads = [threading.Thread(target=ask, args=(f"user{number % 3}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert len(paid) == len(ledger.entries()) == 10
    before = ledger.standing(), ledger.entries()
    if storage is not None:
        storage.close()
        with open_storage(place) as again:
            ledger = Ledger(again.records)
            assert (ledger.standing(), ledger.entries()) == before
            assert again.records.verify("budget") == 10
            with pytest.raises(BudgetExceededError):
                ledger.charge("user0", ["people"], {"mechanism": "laplace", "epsilon": 0.1})


def test_a_charge_that_can_not_be_written_is_none(monkeypatch):
    books = MemoryLedgerBackend()
    ledger = Ledger(books)
    ledger.set_limit(1.0, data="people")

    class Full(Exception):
        pass

    def refuse(page, area, value):
        raise Full

    with monkeypatch.context() as patch:
        patch.setattr("syft.dp.budgets.ledger_backend.MemoryLedgerBackend.append", refuse)
        with pytest.raises(Full):
            ledger.charge("alice", ["people"], LAPLACE)
    assert ledger.spent("people") == 0.0
    assert ledger.charge("alice", ["people"], LAPLACE)["number"] == 1
