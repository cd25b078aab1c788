"""One definition of neighbouring data sets: replace-one for rows, in queries and DP-SGD; another unit for clients."""

import json
import math

import numpy as np
import pytest
import torch
from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent
from dp_accounting.pld import PLDAccountant
from torch import nn

import syft as sy
import syft.dp as dp
from syft.dp.accounting import renyi
from syft.dp.accounting.accountant import Accountant, noise_for
from syft.dp.accounting.neighbours import Neighbours
from syft.dp.accounting.privacy_loss import LossAccount, compacted, event_of
from syft.dp.accounting.replace_one import LossVariable, log_moment
from syft.exceptions import BudgetExceededError, FederatedError
from tests.helpers.dp.exact_divergence import densities, divergence, least_epsilon, replaced

CLIENT, ROW = Neighbours.ADD_REMOVE_CLIENT, Neighbours.REPLACE_ROW


def sampled(rate, noise):
    return dp.PoissonSampled(rate, dp.GaussianNoise(noise))


# --- the cost of replacing a row ---------------------------------------------------------------------------------

CASES = [(0.05, 0.6), (0.1, 0.5), (0.1, 1.0), (0.3, 1.0), (0.5, 2.0), (0.9, 3.0), (0.99, 1.0)]


@pytest.mark.parametrize(("rate", "noise"), CASES)
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_epsilon_of_one_step_bounds_the_exact_divergence(rate, noise, delta):
    exact = least_epsilon(*replaced(rate), noise, delta)
    found = Accountant().compose(sampled(rate, noise)).epsilon(delta)
    assert exact <= found <= 1.5 * exact + 0.8


def test_the_opposite_pair_is_the_worst_one():
    """No other pair of contributions is easier to tell apart, at any epsilon; also not in two dimensions."""
    rng = np.random.default_rng(0)
    for rate, noise in ((0.2, 0.7), (0.7, 1.5)):
        for epsilon in (0.0, 0.3, 1.0, 3.0):
            worst = divergence(*replaced(rate), noise, epsilon)
            for first, second in ((1.0, 0.0), (1.0, -0.5), (0.8, -1.0), (1.0, 0.9)):
                assert divergence(*replaced(rate, first, second), noise, epsilon) <= worst + 1e-9
            for angle in rng.uniform(0, np.pi, 4):
                assert _divergence_at_an_angle(rate, noise, epsilon, angle) <= worst + 1e-6


def _divergence_at_an_angle(rate, noise, epsilon, angle):
    axis = np.linspace(-12 * noise - 1, 12 * noise + 1, 801)
    x, y = np.meshgrid(axis, axis)

    def density(a, b):
        return np.exp(-((x - a) ** 2 + (y - b) ** 2) / (2 * noise**2)) / (2 * np.pi * noise**2)

    p, q = ((1 - rate) * density(0, 0) + rate * density(*at) for at in ((1, 0), (math.cos(angle), math.sin(angle))))
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * (axis[1] - axis[0]) ** 2)


@pytest.mark.parametrize(
    ("rate", "noise", "steps"), [(0.01, 1.0, 1000), (0.1, 2.0, 100), (0.5, 2.0, 10), (0.9, 5.0, 10), (1.0, 4.0, 3)]
)
def test_epsilon_of_many_steps_lies_above_the_oracles_and_near_it(rate, noise, steps):
    oracle = PLDAccountant(NeighboringRelation.REPLACE_ONE, 1e-3)
    oracle.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), steps)
    exact = oracle.get_epsilon(1e-5)
    found = Accountant().compose(sampled(rate, noise), steps).epsilon(1e-5)
    assert exact * (1 - 1e-3) <= found <= 1.15 * exact
    tight = pytest.importorskip("opacus") and Accountant("prv").compose(sampled(rate, noise), steps).epsilon(1e-5)
    assert exact - 0.01 <= tight <= exact + 0.03


@pytest.mark.parametrize(("rate", "noise"), [(0.3, 1.2), (0.05, 0.4), (0.95, 3.0), (1e-4, 0.8)])
def test_moments_by_other_means(rate, noise):
    for order in (1.3, 2.0, 4.5, 16.0):
        grid = np.linspace(-1 - 14 * noise, 2 * order + 14 * noise, 200_001)

        def log_density(mean, grid=grid):
            other, same = (-((grid - at) ** 2) / (2 * noise**2) for at in (0.0, mean))
            return np.logaddexp(math.log1p(-rate) + other, math.log(rate) + same)

        modifiers = order * log_density(1.0) + (1 - order) * log_density(-1.0)
        total = np.exp(modifiers - modifiers.max()).sum() * (grid[1] - grid[0]) / (noise * math.sqrt(2 * math.pi))
        expected = modifiers.max() + math.log(total)
        assert log_moment(order, rate, noise) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_the_loss_variable_is_the_loss():
    rate, noise = 0.3, 0.9
    grid, (p, q) = densities(replaced(rate), noise)
    loss, step = np.log(p / q), grid[1] - grid[0]
    for at in (-3.0, -0.2, 0.0, 0.4, 2.0, 6.0):
        expected = float(p[loss <= at].sum() * step)
        assert float(LossVariable(rate, noise).cdf(at)) == pytest.approx(expected, abs=1e-4)


def test_replacing_costs_more_than_adding_and_at_most_a_group_of_two():
    for rate, noise in CASES:
        row, client = (renyi.curve(sampled(rate, noise), renyi.ORDERS, kind) for kind in (ROW, CLIENT))
        assert (row >= client * (1 - 1e-9)).all() and (
            row <= renyi.curve(dp.GaussianNoise(noise / 2), renyi.ORDERS)
        ).all()
    tiny, huge = (Accountant().compose(sampled(0.2, noise)).epsilon(1e-5) for noise in (1e-3, 1e9))
    assert 1e5 < tiny < math.inf and huge == 0
    falling = [Accountant().compose(sampled(0.2, noise), 10).epsilon(1e-5) for noise in (0.09, 0.11, 0.5, 1, 10, 1e4)]
    assert falling == sorted(falling, reverse=True)


def test_samples_of_other_mechanisms_are_charged_for_two_records():
    """Randomised response on a sample: with P[1] = a if the row is there and says yes, b if it is there and says no."""
    epsilon, rate = 0.8, 0.3
    high, low = (1 / (1 + math.exp(sign * epsilon / 1)) for sign in (-1, 1))
    first, second = ((1 - rate) * 0.5 + rate * p for p in (high, low))
    exact = math.log(first / second)  # joining or leaving the sample costs less than epsilon here
    found = Accountant().compose(dp.PoissonSampled(rate, dp.Pure(epsilon))).epsilon(0)
    assert exact <= found < 2 * epsilon
    assert found == pytest.approx(
        math.log((1 - rate + rate * math.exp(epsilon)) / (1 - rate + rate * math.exp(-epsilon)))
    )
    whole = Accountant().compose(dp.PoissonSampled(1.0, dp.Pure(epsilon)))
    assert whole.epsilon(0) == pytest.approx(2 * epsilon)
    leaky = Accountant().compose(dp.PoissonSampled(0.5, dp.Approximate(1.0, 1e-6)))
    assert leaky.epsilon(1e-6) == math.inf and found < leaky.epsilon(2e-6) < 2.0
    assert Accountant().compose(dp.PoissonSampled(0.5, dp.Pure(1e308))).epsilon(0) >= 1e308


# --- one budget --------------------------------------------------------------------------------------------------


def test_the_ledger_charges_training_for_replacing_a_row():
    fields = {"mechanism": "dp_sgd", "noise_multiplier": 1.0, "rate": 0.3, "steps": 1}
    ledger = dp.Ledger()
    ledger.set_limit(100.0, 1e-6, "patients")
    ledger.charge("alice", ["patients"], fields, "train")
    (row,) = ledger.standing()
    assert row["spent"] >= least_epsilon(*replaced(0.3), 1.0, 1e-6)
    assert row["neighbours"] == "replace-one row"
    with pytest.raises(BudgetExceededError, match="replace-one row"):
        ledger.charge("alice", ["patients"], {"mechanism": "laplace", "epsilon": 1000.0}, "sum")


def test_a_step_on_all_rows_is_charged_for_two_clips():
    event, steps = event_of({"mechanism": "dp_sgd", "noise_multiplier": 2.0, "rate": 1.0, "steps": 5})
    whole = LossAccount().after(event, steps)
    assert whole.epsilon(1e-6) == pytest.approx(Accountant().compose(dp.GaussianNoise(1.0), 5).epsilon(1e-6))
    many = Accountant()
    for number in range(100):
        many.compose(sampled(0.99 + number * 1e-4, 2.0))
    assert compacted(many).epsilon(1e-6) >= many.epsilon(1e-6)


def test_queries_and_training_are_about_the_same_neighbours():
    """A count of rows, and a clipped sum over all rows with the same noise, tell the same about a replaced row."""
    counted = Accountant().compose(dp.GaussianNoise(2.0)).epsilon(1e-6)  # a replaced row moves a count by one
    trained = Accountant().compose(sampled(1.0, 4.0)).epsilon(1e-6)  # and a sum of clipped gradients by two clips
    assert counted == pytest.approx(trained)


def test_accounts_of_rows_and_clients_are_never_mixed():
    clients = Accountant(neighbours=CLIENT).compose(dp.GaussianNoise(1.0))
    with pytest.raises(ValueError, match="replace-one row"):
        LossAccount.from_dict({"releases": 1, "accountant": clients.to_dict()})
    privacy = sy.dp.SamplePrivacy(noise_multiplier=1.0)
    with pytest.raises(FederatedError, match="'bob'"):
        privacy.add_all("bob", clients.to_dict())
    user = sy.dp.UserPrivacy(noise_multiplier=1.0)
    user.begin(100, 10, 0.1)
    state = user.state()
    with pytest.raises(FederatedError, match="replace-one row"):
        user.load_state({**state, "spent": Accountant().to_dict()})


def test_an_accountant_keeps_its_definition():
    for kind in (ROW, CLIENT):
        books = Accountant(neighbours=kind).compose(sampled(0.1, 1.0), 3)
        again = Accountant.from_dict(json.loads(json.dumps(books.to_dict())))
        assert again == books and again.neighbours is books.copy().neighbours is books.after(dp.Pure(1.0)).neighbours
        assert kind.value in repr(books)
    assert Accountant() != Accountant(neighbours=CLIENT)
    old = {name: value for name, value in books.to_dict().items() if name != "neighbours"}
    assert Accountant.from_dict(old).neighbours is ROW
    for bad in ("rows", None, 3):
        with pytest.raises(ValueError, match="replace-one row"):
            Accountant(neighbours=bad)
    assert noise_for(3.0, 1e-5, 0.01, 1000) > noise_for(3.0, 1e-5, 0.01, 1000, neighbours=CLIENT)


# --- reports -----------------------------------------------------------------------------------------------------


def train(**privacy):
    x, y = torch.rand(120, 4), torch.randint(0, 2, (120,))
    return sy.federated.run(
        "fedavg", sy.federated.Simulation((x, y), 12), 1, model=nn.Linear(4, 2), loss_fn=nn.CrossEntropyLoss(),
        example=(x[:2], y[:2]), progress=False, **privacy,
    )  # fmt: skip


def test_every_report_of_an_epsilon_names_its_unit():
    user = sy.dp.UserPrivacy(noise_multiplier=1.0, delta=1e-3)
    rows = sy.dp.SamplePrivacy(noise_multiplier=1.0, delta=1e-3)
    clients, samples, both = train(privacy=user), train(local_privacy=rows), train(privacy=user, local_privacy=rows)
    assert "(add/remove one client)" in repr(clients) and "replace-one" not in repr(clients)
    assert "(replace-one row)" in repr(samples) and "client)" not in repr(samples)
    assert "(add/remove one client)" in repr(both) and "(replace-one row)" in repr(both)
    assert both.epsilons == {CLIENT: clients.epsilon, ROW: samples.epsilon} and both.epsilon == clients.epsilon
    assert both.history[0].neighbours == CLIENT.value and "(replace-one row)" in repr(samples.history)
    assert "add/remove one client" in repr(user)


def test_the_engine_for_own_data_counts_replacing_a_sample():
    pytest.importorskip("opacus")
    engine = sy.dp.PrivacyEngine(accountant="rdp")
    engine.load_state_dict({"history": [[1.0, 0.3, 1]]})
    assert engine.get_epsilon(1e-6) >= least_epsilon(*replaced(0.3), 1.0, 1e-6)
    assert "replace-one row" in repr(engine)
