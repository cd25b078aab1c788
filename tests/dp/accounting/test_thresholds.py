"""User-level privacy with thresholds of secure aggregation: the effect of one client on the threshold is charged."""

import math

import pytest

import syft as sy
from syft.dp.accounting.accountant import Accountant
from syft.dp.accounting.thresholds import Threshold, binomial
from syft.exceptions import FederatedError
from tests.helpers.dp.exact_divergence import least_epsilon


def two_thirds(count):
    return 2 * count // 3 + 1


def begun(clients, rate, least, delta, rounds=1, left=two_thirds, **settings):
    privacy = sy.dp.UserPrivacy(**{"noise_multiplier": 1.0, "clip": 1.0, "delta": delta, **settings})
    privacy.begin(clients, rounds, rate)
    privacy.require(least, left)
    return privacy


def outputs(others, rate, least, update, client):
    """Return the mixtures of a round's sum without and with one more client; each other client gives `update`."""
    without, with_one = [], []
    for count, probability in enumerate(binomial(others, rate)):
        without.append((probability, count * update if count >= least else 0.0))
        with_one.append((probability * (1 - rate), without[-1][1]))
        with_one.append((probability * rate, count * update + client if count + 1 >= least else 0.0))
    return without, with_one


def test_the_setting_that_understated_epsilon_is_refused_with_settings_that_do():
    pair = outputs(199, 0.3, 50, 1.0, -1.0)
    exact = least_epsilon(*pair, 1.0, 1e-5)
    sampled = sy.dp.PoissonSampled(0.3, sy.dp.GaussianNoise(1.0))
    plain = Accountant(neighbours=sy.dp.Neighbours.ADD_REMOVE_CLIENT).compose(sampled).epsilon(1e-5)
    assert plain < 3.3 and exact > 5.7  # without the threshold, and with it
    with pytest.raises(FederatedError, match="min_clients=50") as error:
        begun(200, 0.3, 50, 1e-5)
    text = str(error.value)
    least = int(text.rpartition("SecureAggregation(min_clients=")[2].partition(")")[0])
    rate = float(text.rpartition("UserPrivacy(rate=")[2].partition(")")[0])
    assert 20 < least < 50 and 0.3 < rate < 0.6
    begun(200, 0.3, least, 1e-5)
    begun(200, rate, 50, 1e-5)
    with pytest.raises(FederatedError):
        begun(200, 0.3, least + 1, 1e-5)


CASES = [(20, 0.5, 3, 0.05), (40, 0.3, 3, 1e-3), (60, 0.5, 15, 1e-2), (200, 0.3, 30, 1e-5), (8, 0.9, 3, 1e-2)]


@pytest.mark.parametrize(("clients", "rate", "least", "delta"), CASES)
@pytest.mark.parametrize(("update", "client"), [(1.0, 1.0), (1.0, -1.0), (0.0, 1.0), (-1.0, 1.0)])
def test_epsilon_bounds_the_exact_divergence(clients, rate, least, delta, update, client):
    privacy = begun(clients, rate, least, delta)
    for others in (clients - 1, clients):  # a client is removed, or added
        exact = least_epsilon(*outputs(others, rate, least, update, client), 1.0, delta)
        assert exact <= privacy.cost(1)
    privacy.release(None, 3)
    assert privacy.epsilon == pytest.approx(privacy.cost(0))


def test_the_probability_is_charged_to_delta_in_every_round():
    privacy, plain = begun(20, 0.5, 3, 0.5, rounds=10), begun(20, 0.5, 1, 0.5, rounds=10)
    missed = 0.5 * sum(math.comb(19, k) for k in range(3)) / 2**19
    for _ in range(10):
        privacy.release(None, 3)
        plain.release(None, 3)
    assert privacy._spent.leaked == pytest.approx(10 * missed) and plain._spent.leaked == 0
    assert privacy.epsilon > plain.epsilon
    found = begun(40, 0.5, 3, 1e-3, rounds=10, noise_multiplier=None, target_epsilon=3.0)
    assert 2.99 < found.cost(10) <= 3.0


def test_lost_clients_bring_a_round_closer_to_its_thresholds():
    threshold = Threshold(5, two_thirds)
    chances = [threshold.missed(100, 0.3, dropout) for dropout in (0.0, 0.05, 0.1, 0.2, 0.4)]
    assert chances == sorted(chances) and chances[0] < 1e-10 < 1e-4 < chances[-1] <= 1
    assert threshold.missed(5, 1.0, 0.0) == 1 and threshold.missed(6, 1.0, 0.0) == 0  # each one of five is needed
    everybody = Threshold(3, lambda count: count)
    assert everybody.missed(50, 0.5, 0.0) < 1e-10 and everybody.missed(50, 0.5, 0.02) == pytest.approx(1.0)


def test_lost_clients_by_enumeration():
    """All draws of a small run, of whose clients two are lost at the end if they are drawn."""
    clients, rate, least, lost = 12, 0.6, 3, 2
    exact = 0.0
    for left, p in enumerate(binomial(clients - 1 - lost, rate)):
        for gone, q in enumerate(binomial(lost, rate)):
            is_short = left + gone < least or left < two_thirds(left + gone)
            with_one = left + gone + 1 >= least and left + 1 >= two_thirds(left + gone + 1)
            exact += p * q * (is_short and with_one)
    assert 0 < exact <= Threshold(least, two_thirds).missed(clients, rate, lost / clients) <= 1


def test_more_lost_clients_than_planned_are_charged_or_end_the_run():
    privacy = begun(1000, 0.1, 10, 1e-5, rounds=10)
    before = privacy.cost(1)
    privacy.release(None, 3, lost=0.03)
    assert before <= privacy.epsilon < 1.01 * before
    with pytest.raises(FederatedError, match="40% of the drawn clients.*dropout"):
        privacy.release(None, 3, lost=0.4)
    assert privacy._spent.leaked < 1e-6
    with pytest.raises(FederatedError, match="dropout 0.3"):
        begun(1000, 0.1, 10, 1e-5, rounds=10, dropout=0.3)
    begun(1000, 0.1, 10, 1e-5, rounds=10, dropout=0.1)


@pytest.mark.parametrize("dropout", [-0.1, 1.0, math.nan, True, "0.1", None])
def test_a_dropout_that_is_no_share_is_refused(dropout):
    with pytest.raises(sy.exceptions.TrainingError, match="dropout"):
        sy.dp.UserPrivacy(noise_multiplier=1.0, dropout=dropout)
