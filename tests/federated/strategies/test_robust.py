"""Robust strategies: medians and means against numpy and scipy, and resistance to attackers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from syft.exceptions import FederatedError
from syft.federated.strategies import Answer, FedMedian, Krum, Strategy, TrimmedMean
from syft.federated.strategies import robust as robust_module
from tests.federated.strategies.test_strategies import flat, the_round


def center(strategy: Strategy, updates: np.ndarray | torch.Tensor) -> torch.Tensor:
    """The combined update of a robust strategy."""
    rows = torch.as_tensor(updates)
    answers = [Answer(f"c{number}", row, 1) for number, row in enumerate(rows)]
    return strategy.combine(answers, the_round(layout=flat(rows.shape[1]))).update


ROWS = hnp.arrays(
    st.sampled_from([np.float32, np.float64]),
    st.tuples(st.integers(1, 9), st.integers(1, 7)),
    elements=st.floats(-1e6, 1e6, width=32),
)


@settings(max_examples=40)
@given(ROWS, st.integers(1, 8))
def test_fedmedian_is_numpys_median(updates, chunk):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(robust_module, "CHUNK", chunk)
        np.testing.assert_allclose(center(FedMedian(), updates), np.median(updates.astype(np.float64), axis=0))


@settings(max_examples=40)
@given(ROWS, st.sampled_from([0.0, 0.15, 0.25, 0.4, 0.49]))
def test_trimmed_mean_is_scipys(updates, share):
    strategy = TrimmedMean(share)
    if share and len(updates) < 3:
        with pytest.raises(FederatedError, match="at least 3"):
            center(strategy, updates)
        return
    # At least one is left out, where scipy would leave out none.
    cut = max(share, 1.0001 / len(updates)) if share else 0
    expected = stats.trim_mean(updates.astype(np.float64), cut, axis=0)
    np.testing.assert_allclose(center(strategy, updates), expected, rtol=1e-9, atol=1e-6)


def test_trimmed_mean_counts_as_people_do():
    assert TrimmedMean(0.29).left_out(100) == 29  # 28.999999999999996 in floating point
    assert TrimmedMean(0.1).left_out(5) == 1


@pytest.mark.parametrize("strategy", [FedMedian(), TrimmedMean(0.3), Krum(3), Krum(3, keep=4)], ids=repr)
def test_robust_ones_stay_with_the_honest(strategy):
    """Three of ten clients send whatever they like; FedAvg would follow them anywhere."""
    honest = torch.randn(7, 50) * 0.1 + 1
    for attack in (torch.full((3, 50), 1e30), -50 * honest[:3], torch.full((3, 50), 1.5), torch.randn(3, 50) * 100):
        rows = torch.cat([honest[:2], attack, honest[2:]])[torch.randperm(10)]
        found = center(strategy, rows)
        assert bool((found >= honest.min(0).values - 1e-9).all())
        assert bool((found <= honest.max(0).values + 1e-9).all())
        assert torch.dist(found, torch.ones(50)) < 1.5


def test_krum_picks_the_one_among_its_neighbours():
    rows = torch.tensor([[9.0, 9.0], [1.0, 1.0], [1.1, 1.0], [0.9, 1.0], [1.0, 1.2]])
    answers = [Answer(str(number), row, 10**6 if number == 0 else 1) for number, row in enumerate(rows)]
    found = Krum(1).combine(answers, the_round(layout=flat(2)))
    assert found.update.tolist() == [1.0, 1.0]
    assert found.count == 5
    # Distances to the two nearest: 0.01 + 0.01 for the second.
    np.testing.assert_allclose(Krum(1).scores(list(rows), the_round(layout=flat(2)))[1], 0.02, rtol=1e-5)
    several = Krum(1, keep=2).combine(answers, the_round(layout=flat(2)))
    np.testing.assert_allclose(several.update, rows[[1, 2]].mean(0))  # of two with the same score, the first


@settings(max_examples=40)
@given(st.integers(0, 3), st.integers(0, 4), st.integers(0, 2**32 - 1), st.floats(-1e4, 1e4))
def test_krum_scores_are_the_sums_of_squared_distances(byzantine, more, seed, offset):
    count = 2 * byzantine + 3 + more
    rows = np.random.default_rng(seed).normal(size=(count, 6)) + offset
    apart = ((rows[:, None] - rows[None]) ** 2).sum(-1)
    expected = np.sort(apart, axis=1)[:, 1 : count - byzantine - 1].sum(1)
    found = Krum(byzantine).scores(list(torch.as_tensor(rows)), the_round(layout=flat(6)))
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_krum_tolerates_overflowing_squares():
    rows = torch.cat([torch.full((2, 3), 1e300, dtype=torch.float64), torch.ones(5, 3)])
    assert center(Krum(2), rows).tolist() == [1, 1, 1]


def test_krum_takes_buffers_by_their_median():
    rows = torch.zeros(5, 5)
    rows[:, 0] = torch.tensor([0.0, 0.1, 0.1, 0.2, 50.0])
    rows[:, 4] = torch.tensor([1000.0, 5.0, 9.0, 7.0, -1e9])  # counts differ a lot, and are no reason to choose
    found = Krum(1).combine([Answer(str(n), row, 1) for n, row in enumerate(rows)], the_round()).update
    assert found[0] == pytest.approx(0.1)
    assert found[4] == 7


def test_robust_ones_refuse_too_few():
    rows = torch.ones(4, 2)
    with pytest.raises(FederatedError, match=r"at least 5 clients.*got 4.*min_clients=5"):
        center(Krum(1), rows)
    with pytest.raises(FederatedError, match="at least 7 clients"):
        center(Krum(1, keep=4), torch.ones(6, 2))
    with pytest.raises(FederatedError, match="at least 3"):
        center(TrimmedMean(), rows[:2])
    with pytest.raises(FederatedError, match="no client answered"):
        FedMedian().combine([], the_round())


@pytest.mark.parametrize("strategy", [FedMedian(), TrimmedMean(0.2), Krum(1)], ids=repr)
@settings(max_examples=40)
@given(st.data())
def test_robust_ones_do_not_depend_on_order_or_samples(strategy, data):
    rows = torch.as_tensor(np.random.default_rng(data.draw(st.integers(0, 10**6))).normal(size=(6, 5)))
    order = data.draw(st.permutations(range(6)))
    samples = data.draw(st.lists(st.integers(0, 10**9), min_size=6, max_size=6))
    found = strategy.combine([Answer(str(n), rows[n], samples[n]) for n in order], the_round()).update
    expected = strategy.combine([Answer(str(n), row, 1) for n, row in enumerate(rows)], the_round()).update
    np.testing.assert_allclose(found, expected, rtol=1e-12)
