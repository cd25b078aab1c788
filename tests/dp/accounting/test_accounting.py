"""Accounting: against an oracle, against closed forms, and as entries of a ledger."""

import itertools
import json
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

import syft.dp as dp
from syft.dp.accounting import renyi
from syft.dp.accounting.accountant import Accountant, noise_for
from syft.dp.mechanisms.gaussian import calibrated

CLIENT = dp.Neighbours.ADD_REMOVE_CLIENT
WHOLE = [*range(2, 24), 32, 48, 64, 128, 512]


def sampled(rate: float, noise: float) -> dp.Event:
    return dp.PoissonSampled(rate, dp.GaussianNoise(noise))


def oracle_event(rate: float, noise: float) -> dp_accounting.DpEvent:
    return dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))


# Against the oracle, for adding or removing one (replace-one: test_neighbours.py) --------------------------------------------------------------------------------------

GRID = list(itertools.product((1.0, 0.5, 0.05, 0.001, 1e-6), (0.5, 1.0, 10.0), (1, 1000, 100_000)))


def test_epsilon_is_the_oracles_at_whole_orders():
    """At whole orders both compute the same finite sum: over the whole grid they agree to rounding."""
    for rate, noise, steps in GRID:
        oracle = RdpAccountant(orders=WHOLE)
        oracle.compose(oracle_event(rate, noise), steps)
        ours = Accountant(orders=WHOLE, neighbours=CLIENT).compose(sampled(rate, noise), steps)
        for delta in (1e-3, 1e-5, 1e-10):
            assert ours.epsilon(delta) == pytest.approx(oracle.get_epsilon(delta), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "delta"),
    [
        (0.01, 1.0, 1000, 1e-5),
        (0.01, 1.1, 10_000, 1e-5),
        (0.004, 0.7, 5000, 1e-6),
        (0.1, 4.0, 1000, 1e-5),
        (0.001, 0.8, 100_000, 1e-5),
        (1.0, 5.0, 1, 1e-5),
        (1.0, 50.0, 1000, 1e-5),
        (0.02, 2.0, 1, 1e-6),
    ],
)
def test_epsilon_is_within_a_percent_of_the_oracles_as_it_comes(rate, noise, steps, delta):
    oracle = RdpAccountant()
    oracle.compose(oracle_event(rate, noise), steps)
    found = Accountant(neighbours=CLIENT).compose(sampled(rate, noise), steps).epsilon(delta)
    assert found == pytest.approx(oracle.get_epsilon(delta), rel=0.01)


@pytest.mark.parametrize(("rate", "noise", "steps"), [(0.5, 2.0, 100), (0.1, 1.0, 200)])
def test_epsilon_lies_between_the_exact_one_and_the_oracles(rate, noise, steps):
    """At large rates the oracle's series at broken orders is loose; ours is not, and never below what is exact."""
    loose = RdpAccountant()
    loose.compose(oracle_event(rate, noise), steps)
    exact = PLDAccountant(value_discretization_interval=1e-3)
    exact.compose(oracle_event(rate, noise), steps)
    found = Accountant(neighbours=CLIENT).compose(sampled(rate, noise), steps).epsilon(1e-5)
    assert exact.get_epsilon(1e-5) <= found <= loose.get_epsilon(1e-5) * (1 + 1e-9)


def test_mixed_events_are_within_a_percent_of_the_oracles():
    oracle = RdpAccountant(orders=WHOLE)
    ours = Accountant(orders=WHOLE, neighbours=CLIENT)
    for rate, noise, steps in ((0.01, 1.0, 500), (0.02, 1.5, 300), (1.0, 8.0, 3)):
        oracle.compose(oracle_event(rate, noise), steps)
        ours.compose(sampled(rate, noise), steps)
    oracle.compose(dp_accounting.GaussianDpEvent(30.0), 10)
    ours.compose(dp.GaussianNoise(30.0), 10)
    assert ours.epsilon(1e-5) == pytest.approx(oracle.get_epsilon(1e-5), rel=1e-6)


def test_loss_distributions_are_tighter():
    pytest.importorskip("opacus")
    tight, usual = (Accountant(kind).compose(dp.GaussianNoise(2.0)).epsilon(1e-5) for kind in ("prv", "rdp"))
    assert 0.8 * usual < tight < usual
    assert calibrated(tight, 1e-5) == pytest.approx(2.0, rel=0.01)
    with pytest.raises(ValueError, match="rdp"):
        Accountant("prv").compose(dp.Pure(1.0)).epsilon(1e-5)


# The curves ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "noise"), [(0.5, 0.3), (0.01, 1.0), (1e-4, 0.7), (0.9, 30.0), (1e-9, 2.0), (0.2, 0.05)]
)
def test_integral_equals_the_finite_sum(rate, noise):
    for order in (2, 3, 5, 11):
        summed = renyi._moment_at_whole(order, rate, noise)
        assert renyi._integrated(float(order), rate, noise) == pytest.approx(summed, rel=1e-9)


def test_integral_at_broken_orders_by_other_means():
    """Order 1.5 by a plain sum over a fine grid, in long double."""
    rate, noise = 0.3, 1.2
    z = np.linspace(-30, 30, 20_001, dtype=np.longdouble)
    density = np.exp(-(z**2) / (2 * noise**2)) / (noise * np.sqrt(2 * np.longdouble(np.pi)))
    ratio = 1 - rate + rate * np.exp((2 * z - 1) / (2 * noise**2))
    expected = float(np.log((density * ratio**1.5).sum() * (z[1] - z[0])))
    assert renyi._integrated(1.5, rate, noise) == pytest.approx(expected, rel=1e-9)


def test_tiny_noise_has_a_bound_that_is_none_too_small():
    for order in (1.1, 2.5, 7.3):
        assert renyi._between_whole(order, 0.2, 0.06) >= renyi._integrated(order, 0.2, 0.06)
    below = renyi.curve(sampled(0.2, 0.049), renyi.ORDERS)
    above = renyi.curve(sampled(0.2, 0.051), renyi.ORDERS)
    assert (below >= above).all() and np.isfinite(below).all()


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-8, 1), st.floats(0.1, 100))
def test_curves_rise_with_order_and_rate_and_fall_with_noise(rate, noise):
    orders = (1.25, 2.0, 3.5, 8.0, 32.0)
    for kind, clips in ((CLIENT, 1), (dp.Neighbours.REPLACE_ROW, 2)):
        curve = renyi.curve(sampled(rate, noise), orders, kind)
        assert (np.diff(curve) >= -1e-12).all() and (curve >= 0).all()
        assert (renyi.curve(sampled(rate / 2, noise), orders, kind) <= curve * (1 + 1e-9)).all()
        assert (renyi.curve(sampled(rate, noise * 2), orders, kind) <= curve * (1 + 1e-9)).all()
        assert (curve <= renyi.curve(dp.GaussianNoise(noise / clips), orders) * (1 + 1e-12)).all()


# Pure and approximate ------------------------------------------------------------------------------------


def test_pure_events_add_up():
    books = Accountant().compose(dp.Pure(0.1), 7).compose(dp.Pure(0.25))
    assert books.epsilon(0) == pytest.approx(0.95)
    assert books.epsilon(1e-5) <= 0.95
    many = Accountant().compose(dp.Pure(0.01), 10_000)
    assert many.epsilon(1e-5) < 6 < many.epsilon(0) == pytest.approx(100)
    assert Accountant().compose(dp.Pure(0), 5).epsilon(0) == 0


def test_composition_of_pure_events_is_never_below_the_exact_one():
    """n-fold randomised response, whose (epsilon, delta) is a finite sum (Kairouz, Oh and Viswanath 2015)."""
    for eps, n in ((0.1, 100), (1.0, 10), (0.01, 2000)):
        books = Accountant().compose(dp.Pure(eps), n)
        for delta in (1e-3, 1e-6):
            found = books.epsilon(delta)
            logs = [math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(n + 1)]
            total = n * math.log1p(math.exp(eps))
            exact = sum(
                max(0.0, math.exp(c + k * eps - total) - math.exp(found + c + (n - k) * eps - total))
                for k, c in enumerate(logs)
            )
            assert exact <= delta * (1 + 1e-9)


def test_deltas_add_up():
    books = Accountant().compose(dp.Approximate(0.5, 1e-6), 3)
    assert books.epsilon(3e-6) == pytest.approx(1.5)
    assert books.epsilon(2e-6) == math.inf
    assert books.epsilon(0) == math.inf
    assert Accountant().compose(dp.Approximate(0.5, 0.0), 3).epsilon(0) == pytest.approx(1.5)
    mixed = books.copy().compose(dp.GaussianNoise(10.0))
    assert mixed.epsilon(1e-5) <= 1.5 + Accountant().compose(dp.GaussianNoise(10.0)).epsilon(7e-6)
    assert mixed.epsilon(1e-5) > 1.0


def test_samples_cost_less():
    amplified = Accountant(neighbours=CLIENT).compose(dp.PoissonSampled(0.1, dp.Pure(1.0))).epsilon(0)
    assert amplified == pytest.approx(math.log(1 + 0.1 * (math.e - 1)))
    assert Accountant(neighbours=CLIENT).compose(dp.PoissonSampled(1.0, dp.Pure(1.0))).epsilon(0) == 1.0
    large = Accountant(neighbours=CLIENT).compose(dp.PoissonSampled(0.1, dp.Pure(1000.0))).epsilon(0)
    assert large == pytest.approx(1000 + math.log(0.1))
    approximate = Accountant(neighbours=CLIENT).compose(dp.PoissonSampled(0.1, dp.Approximate(1.0, 1e-5)))
    assert approximate.epsilon(1.01e-6) <= amplified * (1 + 1e-12) and approximate.epsilon(0.9e-6) == math.inf


def test_nothing_and_everything():
    assert Accountant().epsilon(0) == Accountant().epsilon(1e-5) == Accountant().delta(0) == 0
    assert Accountant() and len(Accountant()) == 0
    public = Accountant().compose(dp.Pure(0.1)).compose(dp.NonPrivate())
    assert public.epsilon(1e-5) == public.epsilon(0) == math.inf and public.delta(10) == 1
    assert Accountant().compose(dp.GaussianNoise(1.0)).epsilon(0) == math.inf
    assert Accountant().compose(dp.GaussianNoise(1e6)).epsilon(1e-3) == 0
    assert Accountant().compose(dp.GaussianNoise(1e-3)).epsilon(1e-5) < math.inf


@pytest.mark.parametrize("size", [1e-320, 1e-160, 1e-4, 1e8, 1e160, 1e308])
def test_numbers_of_any_size_never_cost_too_little(size):
    usual = Accountant().compose(sampled(0.1, 1.0)).epsilon(1e-5)
    for event in (sampled(0.1, size), dp.GaussianNoise(size)):
        found = Accountant().compose(event, 10).epsilon(1e-5)
        assert found > usual if size < 1 else 0 <= found < usual
    for event in (dp.Pure(size), dp.PoissonSampled(0.5, dp.Pure(size)), dp.Approximate(size, 1e-7)):
        found = Accountant().compose(event, 2).compose(dp.Pure(size / 3)).epsilon(1e-5)
        assert found >= 2 * size * 0.999 if size > 1 else 0 <= found <= 3 * size
    assert Accountant().compose(sampled(1e-300, 1.0), 2**53).epsilon(1e-5) < usual
    assert Accountant(orders=[5000.5, 9999]).compose(sampled(0.1, 0.06)).epsilon(1e-5) > usual
    assert Accountant().compose(sampled(0.1, 1.0)).delta(math.inf) == 0


# The accountant ------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.floats(0.3, 30), st.sampled_from([1.0, 0.1, 0.01]), st.integers(1, 10**5), st.floats(1e-9, 1e-2))
def test_delta_is_the_inverse_of_epsilon(noise, rate, steps, delta):
    books = Accountant().compose(sampled(rate, noise), steps)
    epsilon = books.epsilon(delta)
    assert books.delta(epsilon) <= delta * (1 + 1e-6)
    if epsilon > 1e-6:
        assert books.delta(epsilon * 0.99) > delta * (1 - 1e-6)
    assert books.after(sampled(rate, noise)).epsilon(delta) >= epsilon
    assert books.epsilon(delta / 2) >= epsilon


def test_equal_events_are_one_entry_and_order_does_not_matter():
    one = Accountant().compose(sampled(0.1, 1.0), 3).compose(dp.Pure(0.5)).compose(sampled(0.1, 1.0), 4)
    two = Accountant().compose(dp.Pure(0.5)).compose(sampled(0.1, 1.0), 7)
    assert one == two.copy() == Accountant().compose(dp.Pure(0.5)).compose(sampled(0.1, 1.0), np.int64(7))
    assert one == two and len(one) == 8 and len(one.events) == 2
    assert one.epsilon(1e-5) == two.epsilon(1e-5)
    assert one != two.compose(dp.Pure(0.5)) and one != 3
    assert repr(one) == "<Accountant, rdp, replace-one row, 8 events>"


def test_asking_before_does_not_charge():
    books = Accountant().compose(dp.Pure(0.5))
    assert books.after(dp.Pure(0.25), 2).epsilon(0) == 1.0 and books.epsilon(0) == 0.5
    copy = books.copy().compose(dp.Pure(1.0))
    assert copy.epsilon(0) == 1.5 and books.epsilon(0) == 0.5
    assert books.compose(dp.Pure(3.0), 0) is books and books.epsilon(0) == 0.5


EVENTS = [
    dp.Pure(0.1),
    dp.Approximate(0.5, 1e-7),
    dp.GaussianNoise(1.1),
    sampled(0.01, 0.9),
    dp.PoissonSampled(0.5, dp.Pure(1.0)),
    dp.NonPrivate(),
]


@pytest.mark.parametrize("orders", [None, [2, 3.5, 64]])
def test_an_accountant_is_plain_values(orders):
    books = Accountant(orders=orders)
    for count, event in enumerate(EVENTS[:-1], 1):
        books.compose(event, count)
    written = json.loads(json.dumps(books.to_dict()))
    again = Accountant.from_dict(written)
    assert again == books and again.epsilon(1e-5) == books.epsilon(1e-5) and again.to_dict() == books.to_dict()
    assert again.compose(dp.Pure(1.0)).epsilon(1e-5) > books.epsilon(1e-5)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_an_event_is_plain_values(event):
    written = json.loads(json.dumps(event.to_dict()))
    assert dp.event_from_dict(written) == event and hash(dp.event_from_dict(written)) == hash(event)
    with pytest.raises(ValueError, match="fields"):
        dp.event_from_dict({**written, "extra": 1})
    for missing in set(written) - {"kind"}:
        with pytest.raises(ValueError, match="fields"):
            dp.event_from_dict({k: v for k, v in written.items() if k != missing})


@pytest.mark.parametrize(
    "fields",
    [
        None,
        [],
        {},
        {"kind": "pure"},
        {"kind": "nothing"},
        {"kind": ["pure"], "epsilon": 1},
        {"kind": "pure", "epsilon": "1"},
        {"kind": "pure", "epsilon": -1},
        {"kind": "pure", "epsilon": math.nan},
        {"kind": "pure", "epsilon": math.inf},
        {"kind": "pure", "epsilon": True},
        {"kind": "pure", "epsilon": 10**400},
        {"kind": "approximate", "epsilon": 1, "delta": 1.5},
        {"kind": "gaussian", "noise_multiplier": 0},
        {"kind": "poisson_sampled", "rate": 0, "event": {"kind": "pure", "epsilon": 1}},
        {"kind": "poisson_sampled", "rate": 0.5, "event": {"kind": "non_private"}},
        {"kind": "poisson_sampled", "rate": 0.5, "event": None},
        {"kind": "poisson_sampled", "rate": 0.5, "event": sampled(0.5, 1.0).to_dict()},
    ],
)
def test_untrusted_events_are_validated(fields):
    with pytest.raises(ValueError, match=r"event|must"):
        dp.event_from_dict(fields)
    with pytest.raises(ValueError, match=r"event|must"):
        Accountant.from_dict({"kind": "rdp", "an event": [[fields, 1]]})


def test_bad_arguments_are_named():
    for bad in (None, {}, {"kind": "rdp"}, {"kind": "rdp", "an event": 3}, {"kind": "rdp", "an event": [[1]]}, []):
        with pytest.raises(ValueError, match="accountant"):
            Accountant.from_dict(bad)
    for bad in ("gdp", ["rdp"], None):
        with pytest.raises(ValueError, match="kind"):
            Accountant.from_dict({"kind": bad, "an event": []})
    for bad in (-1, 1.5, True, "3", 2**60):
        with pytest.raises(ValueError, match="count"):
            Accountant().compose(dp.Pure(1.0), bad)
    for bad in (1.0, None, {"kind": "pure"}):
        with pytest.raises(ValueError, match="an event"):
            Accountant().compose(bad)
    for bad in ([], [1.0], [0.5], "2", [math.nan], 3, [2.0] * 20_000, [1e6]):
        with pytest.raises(ValueError, match="order"):
            Accountant(orders=bad)
    for bad in (-1e-9, 2, math.nan, None, "x"):
        with pytest.raises(ValueError, match="delta"):
            Accountant().epsilon(bad)


# Calibration ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("target", "delta", "rate", "steps"), [(1.0, 1e-5, 0.01, 1000), (8.0, 1e-6, 0.1, 100), (0.1, 1e-5, 1.0, 1), (50.0, 1e-3, 0.5, 10)])  # fmt: skip
def test_noise_for_a_target(target, delta, rate, steps):
    noise = noise_for(target, delta, rate, steps)
    assert Accountant().compose(sampled(rate, noise), steps).epsilon(delta) <= target
    assert Accountant().compose(sampled(rate, noise * 0.999), steps).epsilon(delta) > target


def test_noise_for_an_impossible_target():
    with pytest.raises(ValueError, match="fewer steps"):
        noise_for(1e-9, 1e-12, 1.0, 10**9)
    for bad in ({"target_epsilon": 0}, {"delta": 0}, {"rate": 0}, {"rate": 2}, {"steps": -1}, {"kind": "x"}):
        with pytest.raises(ValueError, match=rf"{next(iter(bad))}|count"):
            noise_for(**{"target_epsilon": 1.0, "delta": 1e-5, "rate": 0.1, "steps": 10, **bad})
    assert noise_for(1e9, 1e-5) < 0.01
