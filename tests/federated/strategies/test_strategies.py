"""Strategies: each update rule against results computed by hand or by a reference implementation."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from syft.exceptions import FederatedError, StateLostError, TrainingError
from syft.federated.client.state_vector import StateLayout
from syft.federated.server.aggregation import PlainAggregation
from syft.federated.strategies import (
    STRATEGIES,
    Answer,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedProx,
    FedYogi,
    Krum,
    Round,
    Scaffold,
    Strategy,
    Total,
    TrimmedMean,
    strategy_of,
)
from syft.serde import deserialize, serialize

# Two parameters, and a buffer of two numbers and a count.
LAYOUT = StateLayout(
    [("weight", torch.zeros(2))], [("mean", torch.zeros(2)), ("count", torch.zeros((), dtype=torch.int64))]
)


def the_round(number: int = 1, clients: int = 4, layout: StateLayout = LAYOUT) -> Round:
    return Round(number, clients, layout)


def flat(size: int) -> StateLayout:
    """A layout of parameters alone."""
    return StateLayout([("weight", torch.zeros(size))], [])


def vector(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def total(*values: float, **extras: torch.Tensor) -> Total:
    return Total(vector(*values), 10.0, 2, extras)


def collected(strategy: Strategy, updates, samples, round: Round) -> Total:
    """Return the total of a round with these results."""
    clients = {f"c{number}": None for number in range(len(updates))}
    aggregation = PlainAggregation()
    aggregation.begin(round, clients, strategy)
    for name, update, count in zip(clients, updates, samples, strict=True):
        aggregation.add(name, {"update": torch.as_tensor(update), "samples": count})
    return aggregation.finish()


# --- means, and steps along them --------------------------------------------------------------------------------


def test_fedavg_is_the_mean_by_samples_or_by_clients():
    updates, samples = [vector(1, 0, 4, 4, 3), vector(4, 3, 1, 1, 0)], [2, 1]
    start = vector(10, 10, 10, 10, 10)
    strategy = FedAvg()
    assert strategy.apply(start, collected(strategy, updates, samples, the_round()), the_round()).tolist() == [
        12, 11, 13, 13, 12,
    ]  # fmt: skip
    plain = FedAvg(weighted=False)
    assert plain.apply(start, collected(plain, updates, samples, the_round()), the_round()).tolist() == [
        12.5, 11.5, 12.5, 12.5, 11.5,
    ]  # fmt: skip
    assert start.tolist() == [10] * 5


def test_a_server_learning_rate_is_for_parameters_and_not_for_buffers():
    found = FedAvg(server_lr=0.5).apply(vector(0, 0, 0, 0, 0), total(2, 4, 6, 8, 10), the_round())
    assert found.tolist() == [1, 2, 6, 8, 10]


@settings(max_examples=40)
@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.just(5)), elements=st.floats(-1e3, 1e3)),
    st.data(),
)
def test_fedavg_lies_between_the_clients_whatever_their_weights(updates, data):
    samples = [data.draw(st.integers(1, 1000)) for _ in updates]
    strategy, zeros = FedAvg(), torch.zeros(5, dtype=torch.float64)
    round = the_round(layout=StateLayout([("weight", zeros)], []))
    found = strategy.apply(zeros, collected(strategy, updates, samples, round), round)
    expected = np.average(updates, axis=0, weights=samples)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_fedavgm_by_hand():
    strategy = FedAvgM(server_lr=0.5, momentum=0.5)
    first = strategy.apply(vector(0, 0, 0, 0, 0), total(2, -4, 1, 1, 3), the_round(1))
    # v = (2, -4); half of it.
    assert first.tolist() == [1, -2, 1, 1, 3]
    second = strategy.apply(first, total(1, 2, 1, 1, 3), the_round(2))
    # v = (1 + 1, -2 + 2)
    assert second.tolist() == [2, -2, 2, 2, 6]


def test_fedadam_by_hand():
    strategy = FedAdam(server_lr=1.0, beta1=0.5, beta2=0.75, tau=1.0)
    first = strategy.apply(vector(0, 0, 0, 0, 0), total(3, 0, 1, 2, 3), the_round(1))
    # m = (1.5, 0); v = 0.75 * 1 + 0.25 * (9, 0) = (3, 0.75); no correction of the bias.
    np.testing.assert_allclose(first, [1.5 / (math.sqrt(3) + 1), 0, 1, 2, 3])
    second = strategy.apply(first, total(-1, 2, 1, 2, 3), the_round(2))
    # m = (0.25, 1); v = 0.75 * (3, 0.75) + 0.25 * (1, 4) = (2.5, 1.5625)
    step = [0.25 / (math.sqrt(2.5) + 1), 1 / 2.25]
    np.testing.assert_allclose(second, [first[0] + step[0], step[1], 2, 4, 6])


def test_fedyogi_by_hand():
    strategy = FedYogi(server_lr=2.0, beta1=0.5, beta2=0.75, tau=1.0)
    first = strategy.apply(vector(0, 0, 0, 0, 0), total(3, 0.5, 1, 2, 3), the_round(1))
    # v = 1 - 0.25 * (9, 0.25) * sign(1 - (9, 0.25)) = (3.25, 0.9375)
    np.testing.assert_allclose(first, [3 / (math.sqrt(3.25) + 1), 0.5 / (math.sqrt(0.9375) + 1), 1, 2, 3])
    second = strategy.apply(first, total(1, 2, 1, 2, 3), the_round(2))
    # m = (1.25, 1.125); v = (3.25 - 0.25 * 1, 0.9375 + 0.25 * 4) = (3, 1.9375)
    step = [2.5 / (math.sqrt(3) + 1), 2.25 / (math.sqrt(1.9375) + 1)]
    np.testing.assert_allclose(second[:2], [first[0] + step[0], first[1] + step[1]])
    assert second[2:].tolist() == [2, 4, 6]


def test_fedadam_steps_alike_for_numbers_of_any_size():
    """What adaptive steps are for: after many rounds a step is the learning rate, for large numbers and small ones."""
    strategy = FedAdam(server_lr=0.1, tau=1e-9)
    state = vector(0, 0, 0, 0, 0)
    for number in range(1, 1500):
        last = state
        state = strategy.apply(state, total(100, -0.01, 0, 0, 0), the_round(number))
    np.testing.assert_allclose(state - last, [0.1, -0.1, 0, 0, 0], rtol=1e-4)


def test_fedprox_asks_clients_for_its_term():
    assert FedProx(mu=0.5).modifiers(the_round(), "bob") == {"proximal": {"mu": 0.5}}
    assert FedProx(mu=0).modifiers(the_round(), "bob") == {}


# --- the controls of Scaffold, at the server --------------------------------------------------------------------


def test_scaffold_keeps_the_mean_control_and_the_counted_clients():
    strategy, first = Scaffold(server_lr=0.5), the_round(1, clients=4)
    sent = strategy.modifiers(first, "a")["control"]
    assert sent["control"].tolist() == [0, 0] and sent["control"].dtype == torch.float32
    assert (sent["version"], sent["plain"]) == (0, False)
    state = strategy.apply(vector(0, 0, 0, 0, 0), total(2, 2, 2, 2, 2, control=vector(8, -4)), first)
    strategy.counted(["a", "b"], first)
    assert state.tolist() == [1, 1, 2, 2, 2]
    # Two of four clients changed theirs by (8, -4) each.
    sent = strategy.modifiers(the_round(2), "a")["control"]
    assert sent["control"].tolist() == [4, -2] and sent["version"] == 1
    assert strategy.modifiers(the_round(2), "c")["control"]["version"] == 0


def test_scaffold_resets_when_a_client_lost_its_control():
    strategy = Scaffold()
    strategy.apply(vector(0, 0, 0, 0, 0), total(2, 2, 2, 2, 2, control=vector(8, -4)), the_round(1))
    strategy.counted(["a", "b"], the_round(1))
    second = the_round(2)
    assert not strategy.failed("b", TrainingError("something else"), second)
    assert strategy.failed("a", StateLostError("gone"), second)
    assert not strategy.failed("a", StateLostError("gone"), second)
    # It trains without; the others of this round as they began.
    plain = strategy.modifiers(second, "a")["control"]
    assert (plain["version"], plain["plain"]) == (0, True)
    assert strategy.modifiers(second, "b")["control"]["version"] == 1
    moved = strategy.apply(vector(0, 0, 0, 0, 0), total(2, 2, 2, 2, 2, control=vector(1, 1)), second)
    strategy.counted(["a", "b"], second)
    assert moved.tolist() == [2, 2, 2, 2, 2]
    for name in ("a", "b"):
        sent = strategy.modifiers(the_round(3), name)["control"]
        assert sent["control"].tolist() == [0, 0] and (sent["version"], sent["plain"]) == (0, False)


# --- what would spoil a strategy for good -----------------------------------------------------------------------


PLACES = {"parameter": 1, "buffer": 3, "control": 6}  # in an update of five numbers, and two of a control
SPOILED = [(kind, place) for kind in (FedAvg, FedAvgM, FedAdam, FedYogi) for place in ("parameter", "buffer")]
SPOILED += [(Scaffold, place) for place in PLACES]


@pytest.mark.parametrize("bad", [math.nan, -math.inf, 1e300, -1e40])
@pytest.mark.parametrize(("kind", "place"), SPOILED)
def test_a_round_that_is_not_finite_changes_nothing(kind, place, bad):
    strategy, state, good = kind(), vector(1, 1, 1, 1, 1), [1.0, 2.0, 1.0, 2.0, 3.0, 1.0, 1.0]
    strategy.apply(state, total(*good[:5], control=vector(*good[5:])), the_round(1))
    before = serialize(strategy.state(), None)
    given = [bad if number == PLACES[place] else value for number, value in enumerate(good)]
    with pytest.raises(FederatedError, match="the round does not count"):
        strategy.apply(state, total(*given[:5], control=vector(*given[5:])), the_round(2))
    assert serialize(strategy.state(), None) == before and state.tolist() == [1, 1, 1, 1, 1]


@pytest.mark.parametrize("kind", [FedAdam, FedYogi])
def test_a_mean_square_that_would_never_shrink_again_is_refused(kind):
    strategy = kind()
    with pytest.raises(FederatedError, match="the round does not count"):
        strategy.apply(vector(0, 0, 0, 0, 0), total(1e20, 0, 0, 0, 0), the_round())  # 1e40 when squared
    assert strategy.state() == {"mean": None, "square": None}


# --- all of them ------------------------------------------------------------------------------------------------


def steps(strategy: Strategy, numbers: range, state: torch.Tensor) -> torch.Tensor:
    """Go through rounds with given answers."""
    for number in numbers:
        round = the_round(number)
        chance = torch.Generator().manual_seed(number)
        rows = torch.randn(6, 5, generator=chance, dtype=torch.float64)
        if strategy.is_linear:
            given = Total(rows.mean(0), 6.0, 6, dict.fromkeys(strategy.extras, rows[0, :2]))
        else:
            given = strategy.combine([Answer(str(n), row, 1) for n, row in enumerate(rows)], round)
        state = strategy.apply(state, given, round)
        strategy.counted([str(n) for n in range(6)], round)
    return state


@pytest.mark.parametrize("kind", STRATEGIES.values(), ids=STRATEGIES)
def test_a_strategy_goes_on_exactly_where_it_was(kind):
    start = torch.zeros(5, dtype=torch.float64)
    whole, half = kind(), kind()
    middle = steps(half, range(1, 4), start)
    saved = deserialize(serialize(half.state(), None), None)
    resumed = kind()
    resumed.load_state(saved)
    assert torch.equal(steps(whole, range(1, 7), start), steps(resumed, range(4, 7), middle))
    # Going on changes nothing of what was saved.
    again = kind()
    again.load_state(saved)
    assert torch.equal(steps(again, range(4, 7), middle), steps(half, range(4, 7), middle))
    for name in ("a", "3"):
        first, second = whole.modifiers(the_round(9), name), resumed.modifiers(the_round(9), name)
        assert first.keys() == second.keys()
        for term, values in first.items():
            assert all(torch.equal(torch.as_tensor(v), torch.as_tensor(second[term][k])) for k, v in values.items())
    # An empty state resets it.
    resumed.load_state({})
    assert torch.equal(steps(resumed, range(1, 4), start), middle)


@pytest.mark.parametrize("kind", STRATEGIES.values(), ids=STRATEGIES)
def test_settings_make_the_same_strategy_again(kind):
    strategy = kind()
    again = kind(**strategy.settings())
    assert again.settings() == strategy.settings()
    assert repr(again) == repr(strategy)
    assert repr(strategy).startswith(kind.__name__ + "(")
    assert all(type(value) in (int, float, bool) for value in strategy.settings().values())


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (FedAvgM, {"velocity": [1.0, 2.0]}),
        (FedAvgM, {"velocity": vector(math.nan)}),
        (FedAdam, {"mean": vector(1, 2), "square": None}),
        (FedYogi, {"mean": vector(1, 2), "square": vector(1, -2)}),
        (Scaffold, {"sum": None, "versions": {"a": True}}),
        (Scaffold, {"sum": torch.ones(2, 2), "versions": {}}),
    ],
)
def test_a_state_that_does_not_fit_is_refused(kind, state):
    with pytest.raises(FederatedError, match="checkpoint can't be used"):
        kind().load_state(state)


@pytest.mark.parametrize("kind", [FedAvgM, FedAdam, FedYogi, Scaffold])
def test_a_strategy_of_another_model_is_refused(kind):
    strategy = kind()
    strategy.apply(vector(0, 0, 0, 0, 0), total(1, 1, 1, 1, 1, control=vector(1, 1)), the_round(1))
    larger = the_round(2, layout=flat(3))
    with pytest.raises(FederatedError, match="Make a new"):
        strategy.apply(vector(0, 0, 0), total(1, 1, 1, control=vector(1, 1, 1)), larger)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1, True, None, "0.1", torch.tensor(0.1), 1e999])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (FedAvg, "server_lr"), (FedProx, "mu"), (FedProx, "server_lr"), (FedAvgM, "momentum"), (FedAdam, "beta1"),
        (FedAdam, "beta2"), (FedYogi, "tau"), (Scaffold, "server_lr"), (TrimmedMean, "share"), (Krum, "byzantine"),
        (Krum, "keep"), (FedYogi, "weighted"),
    ],
)  # fmt: skip
def test_bad_settings_are_refused_at_once(kind, name, bad):
    if name == "weighted" and bad is True:
        return
    with pytest.raises(TrainingError, match=f"{kind.__name__}: {name} must be "):
        kind(**{name: bad})


@pytest.mark.parametrize(
    ("kind", "values"),
    [(FedAvg, {"server_lr": 0}), (FedAvgM, {"momentum": 1}), (FedAdam, {"tau": 0}), (FedAdam, {"beta2": 1.0}),
     (TrimmedMean, {"share": 0.5}), (Krum, {"keep": 0}), (Krum, {"byzantine": 1.5})],
)  # fmt: skip
def test_settings_at_the_edge_are_refused(kind, values):
    with pytest.raises(TrainingError):
        kind(**values)


def test_numbers_of_numpy_are_numbers():
    assert FedAvg(server_lr=np.float32(0.5)).settings() == {"server_lr": 0.5, "weighted": True}
    assert Krum(np.int64(2)).settings() == {"byzantine": 2, "keep": 1}


def test_strategies_by_name():
    assert isinstance(strategy_of("fedavg"), FedAvg) and isinstance(strategy_of("FedAvg"), FedAvg)
    assert isinstance(strategy_of(Krum), Krum)
    mine = FedProx(0.3)
    assert strategy_of(mine) is mine
    for bad in ("fedsgd", None, dataclasses.dataclass, 3):
        with pytest.raises(TrainingError, match="Use one of fedavg, fedprox"):
            strategy_of(bad)
