"""DP-FedAvg: clients are sampled secretly, clipped, and hidden by noise."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.rdp import RdpAccountant
from torch import nn

import syft as sy
from syft.exceptions import FederatedError, TrainingError
from syft.federated.client.local_round import modifiers_of
from syft.federated.client.modifiers.clipping import clipped_update
from syft.federated.client.state_vector import StateLayout
from syft.federated.strategies import FedAvg, FedMedian, Scaffold
from syft.federated.strategies.strategy import Total
from tests.helpers.dp.noise import distance, keyed


def begun(clients=100, rounds=10, rate=None, **settings):
    privacy = sy.dp.UserPrivacy(**{"noise_multiplier": 1.0, "clip": 0.5, "delta": 1e-5, **settings})
    privacy.begin(clients, rounds, rate)
    return privacy


def total(update, count):
    return Total(update, float(count), count)


# --- what it costs ----------------------------------------------------------------------------------------------


def test_epsilon_is_that_of_dp_accounting():
    privacy = begun(clients=1000, rate=0.05, noise_multiplier=0.8)
    for _ in range(30):
        privacy.release(None, 3)
    oracle = RdpAccountant()
    oracle.compose(SelfComposedDpEvent(PoissonSampledDpEvent(0.05, GaussianDpEvent(0.8)), 30))
    assert privacy.epsilon == pytest.approx(oracle.get_epsilon(1e-5), rel=0.01)
    assert f"spent epsilon={privacy.epsilon:.4g}" in repr(privacy)


def test_noise_is_found_for_the_rounds_of_a_run_which_ends_before_it_would_pass_its_target():
    privacy = begun(rounds=7, rate=0.1, noise_multiplier=None, target_epsilon=2.0)
    done = 0
    while privacy.ending() is None:
        privacy.release(None, 3)
        done += 1
    assert done == 7 and 1.99 < privacy.epsilon <= 2.0
    assert "target_epsilon of 2" in privacy.ending()


def test_a_resumed_run_keeps_its_privacy_loss():
    privacy = begun(rate=0.1, noise_multiplier=None, target_epsilon=3.0)
    privacy.release(None, 3)
    other = sy.dp.UserPrivacy(clip=0.5, delta=1e-5, target_epsilon=3.0)
    other.begin(100, 10, 0.1)
    other.load_state(privacy.state())
    assert other.epsilon == privacy.epsilon > 0 and other.noise_multiplier == privacy.noise_multiplier
    for state in ({}, {**privacy.state(), "clients": 99}, {**privacy.state(), "spent": {"kind": "rdp"}}):
        with pytest.raises(FederatedError):
            other.load_state(state)
    other.begin(100, 10, 0.1)
    assert other.epsilon == 0


# --- who takes part ---------------------------------------------------------------------------------------------


def test_clients_are_drawn_by_the_cryptographic_generator():
    privacy = begun(clients=2000, rate=0.01)
    draws = []
    for key in (b"a" * 16, b"a" * 16, b"b" * 16):
        with keyed(key):
            draws.append([privacy.choose(2000) for _ in range(50)])
    assert draws[0] == draws[1] != draws[2]
    sizes = torch.tensor([len(rows) for rows in draws[0]], dtype=torch.float64)
    assert abs(sizes.mean() - 20) < 2 and 3 < sizes.std() < 6
    times = torch.bincount(torch.tensor(list(itertools.chain(*draws[0]))), minlength=2000)
    assert int(times.max()) <= 5
    torch.manual_seed(1)
    first = privacy.choose(2000)
    torch.manual_seed(1)
    assert first != privacy.choose(2000)


def test_at_rate_one_all_clients_take_part_and_their_number_is_fixed():
    privacy = begun(clients=5)
    assert privacy.choose(5) == [0, 1, 2, 3, 4]
    with pytest.raises(FederatedError, match="5 clients"):
        privacy.choose(6)


def test_a_draw_may_be_empty():
    assert begun(clients=3, rate=1e-9).choose(3) == []


# --- what they give ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e12, 1e30])
def test_an_update_is_never_longer_than_the_clip(dtype, scale):
    update = torch.randn(1000, dtype=dtype) * scale
    found = clipped_update(update, 0.3)
    assert found.dtype == dtype and float(found.double().norm()) <= 0.3
    assert torch.allclose(found.double() / found.double().norm(), update.double() / update.double().norm(), atol=1e-5)
    update[3] = math.nan
    assert not clipped_update(update, 0.3).any()


def test_the_server_clips_again_and_counts_each_client_once():
    privacy = begun()
    given = {"update": torch.ones(100), "samples": 9999, "metrics": {"loss": 1.0}}
    found = privacy.bound(given)
    assert float(found["update"].norm()) <= 0.5 and found["samples"] == 1 and "metrics" not in found
    assert given["samples"] == 9999
    masked = {"update": torch.ones(3, dtype=torch.int64)}
    assert privacy.bound(masked) is masked
    assert privacy.bound("nonsense") == "nonsense"


def test_noise_has_the_stated_scale_and_the_sum_is_divided_by_the_expected_number():
    privacy = begun(clients=50, rate=0.2, noise_multiplier=2.0)  # ten are expected
    update = torch.full((20000,), 0.01)
    with keyed():
        found = privacy.release(total(update, 4), 20000)
    noise = found.update * 10 - update.double() * 4
    assert distance(noise, 1.0) < 1.6 and distance(noise, 1.1) > 1.6
    assert (found.weight, found.count) == (10.0, 4)
    before = torch.get_rng_state()
    again = privacy.release(total(update, 4), 20000)
    assert torch.equal(before, torch.get_rng_state()) and not torch.equal(found.update, again.update)


def test_a_round_without_clients_is_noise_only():
    privacy = begun(clients=50, rate=0.2)
    with keyed():
        found = privacy.release(None, 5000)
    assert distance(found.update * 10, 0.5) < 1.6 and found.count == 0
    assert privacy.epsilon > 0


def test_clients_that_count_differently_are_refused():
    with pytest.raises(FederatedError, match="same weight"):
        begun().release(Total(torch.zeros(3), 70.0, 3), 3)
    with pytest.raises(FederatedError, match="has no run"):
        sy.dp.UserPrivacy(noise_multiplier=1.0).release(None, 3)


@pytest.mark.parametrize("strategy", [FedMedian(), Scaffold()])
def test_strategies_that_need_more_than_the_sum_are_refused(strategy):
    begun().check(FedAvg())
    with pytest.raises(FederatedError, match="FedAvg"):
        begun().check(strategy)


def test_models_with_buffers_are_refused():
    weight = [("weight", torch.zeros(3))]
    begun().check_layout(StateLayout(weight, []))
    with pytest.raises(FederatedError, match="4 numbers in buffers.*GroupNorm"):
        begun().check_layout(StateLayout(weight, [("running_var", torch.ones(4))]))


BAD = [("noise_multiplier", value) for value in (0, -1.0, math.nan, math.inf, True, "1")]
BAD += [("clip", value) for value in (0.0, -1, None, math.nan, math.inf, True)]
BAD += [("delta", value) for value in (0.0, 1.0, None, math.nan)]
BAD += [("target_epsilon", value) for value in (0.0, -1, math.nan, True)]
BAD += [("rate", value) for value in (0.0, 1.1, math.nan, True)]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_settings_that_make_no_sense_are_refused(name, value):
    with pytest.raises(TrainingError, match=name):
        sy.dp.UserPrivacy(**{"noise_multiplier": 1.0, name: value})
    if name == "rate":
        with pytest.raises(FederatedError, match="rate"):
            begun(rate=value if value is not True else 2)
    if name == "clip":
        with pytest.raises(TrainingError, match="clip must be"):
            modifiers_of({"clipping": {"clip": value}})


def test_neither_noise_nor_target_is_refused():
    with pytest.raises(TrainingError, match="noise_multiplier or target_epsilon"):
        sy.dp.UserPrivacy()
    with pytest.raises(TrainingError):
        modifiers_of({"clipping": {"clip": 1.0, "more": 1}})


# --- runs -------------------------------------------------------------------------------------------------------


def digits():
    from sklearn.datasets import load_digits

    found = load_digits()
    return torch.tensor(found.data / 16, dtype=torch.float32), torch.tensor(found.target)


def run(privacy, rounds=3, clients=30, data=None, **changed):
    x, y = (
        (torch.rand(240, 64, generator=torch.Generator().manual_seed(0)), torch.arange(240) % 10)
        if data is None
        else data
    )
    given = {
        "model": nn.Linear(64, 10), "loss_fn": nn.CrossEntropyLoss(), "example": (x[:2], y[:2]), "progress": False,
        "optimizer_args": {"lr": 0.5}, "batch_size": 16, "seed": 0, "privacy": privacy, **changed,
    }  # fmt: skip
    return sy.federated.run("fedavg", sy.federated.Simulation((x, y), clients), rounds, **given)


def test_a_run_is_private_and_reports_its_loss():
    privacy = sy.dp.UserPrivacy(noise_multiplier=1.0, clip=1.0, delta=1e-3)
    first, second = (run(privacy, clients_per_round=15) for _ in range(2))
    oracle = RdpAccountant()
    oracle.compose(SelfComposedDpEvent(PoissonSampledDpEvent(0.5, GaussianDpEvent(1.0)), 3))
    assert first.epsilon == second.epsilon == pytest.approx(oracle.get_epsilon(1e-3), rel=0.01)
    assert all(record.loss is None for record in first.history)
    assert not torch.allclose(first.model.weight, second.model.weight, atol=1e-3)  # the seed repeats no noise


def test_a_private_run_learns_the_common_trend():
    x, y = digits()
    privacy = sy.dp.UserPrivacy(noise_multiplier=0.1, clip=1.0, delta=1e-3)
    with keyed():  # the same noise each time
        result = run(privacy, rounds=8, clients=60, data=(x, y))
    assert (result.model(x).argmax(1) == y).float().mean() > 0.7


def test_a_run_ends_at_its_target():
    privacy = sy.dp.UserPrivacy(noise_multiplier=2.0, clip=1.0, delta=1e-3, target_epsilon=3.0, rate=0.3)
    result = run(privacy, rounds=200)
    more = begun(noise_multiplier=2.0, delta=1e-3, rate=0.3).cost(len(result.history) + 1)
    assert 0 < len(result.history) < 200 and result.epsilon <= 3.0 < more


def test_a_run_that_is_resumed_counts_every_round_once(tmp_path):
    def private():
        return sy.dp.UserPrivacy(noise_multiplier=1.0, delta=1e-3, rate=0.5)

    model, once = nn.Linear(64, 10), private()
    run(private(), rounds=2, checkpoint=tmp_path, model=model)
    resumed = run(private(), rounds=3, checkpoint=tmp_path, model=model)
    once.begin(30, 3)
    assert len(resumed.history) == 3 and resumed.epsilon == pytest.approx(once.cost(3))
    with pytest.raises(FederatedError, match="privacy"):
        run(sy.dp.UserPrivacy(noise_multiplier=0.5, delta=1e-3, rate=0.5), checkpoint=tmp_path, model=model)


def test_an_empty_round_is_a_round_with_noise_only():
    result = run(sy.dp.UserPrivacy(noise_multiplier=1.0, rate=1e-9), rounds=2, clients=3)
    assert [record.answered for record in result.history] == [0, 0]
    often = sy.dp.UserPrivacy(noise_multiplier=1.0, rate=1e-9)
    often.begin(3, 2)
    assert result.epsilon == often.cost(2)


def test_with_secure_aggregation_the_result_is_the_same():
    privacy = sy.dp.UserPrivacy(noise_multiplier=1e-3, clip=0.1, delta=1e-3)
    model = nn.Linear(64, 10)
    secure = run(privacy, 1, 4, secure=sy.federated.SecureAggregation(), model=model)
    plain = run(privacy, 1, 4, model=model)
    assert torch.allclose(secure.model.weight, plain.model.weight, atol=1e-3)
    pairs = zip(secure.model.parameters(), model.parameters(), strict=True)
    moved = torch.cat([(after - before).detach().reshape(-1) for after, before in pairs])
    assert 0.001 < float(moved.norm()) <= 0.1 + 0.01
