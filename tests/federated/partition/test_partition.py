"""Partitions: every sample goes to exactly one client, repeatably, and no client is empty."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from syft.exceptions import TrainingError
from syft.federated import IID, ByLabel, Dirichlet, Shards, Simulation

LABELS = st.lists(st.integers(0, 5), min_size=1, max_size=120).map(torch.tensor)
KINDS = st.one_of(
    st.builds(IID, st.integers(0, 2)),
    st.builds(Dirichlet, st.floats(1e-3, 1e3), st.integers(0, 3)),
    st.builds(ByLabel, st.integers(1, 4)),
    st.builds(Shards, st.integers(1, 3)),
)


@pytest.fixture(scope="module")
def digits():
    return torch.as_tensor(load_digits().target)


def labels_of(targets, parts):
    return [set(targets[part].tolist()) for part in parts]


@settings(max_examples=150)
@given(LABELS, KINDS, st.integers(1, 40), st.integers(0, 2**32))
def test_every_sample_goes_to_exactly_one_client(targets, partition, count, seed):
    try:
        parts = partition.split(targets, count, seed)
    except TrainingError:
        # Only where it is impossible.
        assert is_impossible(targets, partition, count)
        return
    assert len(parts) == count
    assert torch.equal(torch.cat(parts).sort().values, torch.arange(len(targets)))
    least = getattr(partition, "min_samples", 1)
    assert all(len(part) >= least and part.dtype == torch.int64 for part in parts)
    assert all(torch.equal(part, part.sort().values) for part in parts)
    if isinstance(partition, ByLabel):
        assert {len(labels) for labels in labels_of(targets, parts)} == {partition.labels_per_client}
    again = partition.split(targets, count, seed)
    assert all(map(torch.equal, parts, again))


def is_impossible(targets, partition, count):
    _, sizes = np.unique(targets.numpy(), return_counts=True)
    if isinstance(partition, ByLabel):
        wanted = count * partition.labels_per_client
        return not len(sizes) <= wanted <= sum(min(size, count) for size in sizes) or partition.labels_per_client > len(
            sizes
        )
    each = partition.shards_per_client if isinstance(partition, Shards) else partition.min_samples
    return count * each > len(targets)


@pytest.mark.parametrize("partition", [IID(), Dirichlet(0.3), ByLabel(2), Shards()], ids=repr)
def test_another_seed_gives_other_parts(digits, partition):
    first, second = (partition.split(digits, 10, seed) for seed in (1, 2))
    assert not all(map(torch.equal, first, second))


def test_iid_clients_are_alike(digits):
    parts = IID().split(digits, 10, 0)
    assert {len(part) for part in parts} == {179, 180}
    for part in parts:
        shares = np.bincount(digits[part], minlength=10) / len(part)
        assert (abs(shares - 0.1) < 0.08).all()


def test_iid_takes_targets_of_any_kind():
    for targets in (torch.randn(50), torch.randn(50, 3), torch.rand(50) > 0.5, torch.full((50,), torch.nan)):
        assert sum(map(len, IID().split(targets, 7, 0))) == 50


def test_dirichlet_is_as_uneven_as_alpha(digits):
    def unevenness(alpha):
        parts = Dirichlet(alpha).split(digits, 10, 0)
        tables = np.stack([np.bincount(digits[part], minlength=10) / len(part) for part in parts])
        return abs(tables - 0.1).mean()

    found = [unevenness(alpha) for alpha in (0.05, 0.5, 5, 1000)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.12 and found[-1] < 0.02


def test_dirichlet_shares_are_those_of_the_distribution():
    """The share of a client in one label has mean 1/n and variance (n - 1) / (n^2 (n alpha + 1))."""
    targets, alpha = torch.zeros(400, dtype=torch.int64), 0.7
    shares = [len(Dirichlet(alpha, min_samples=0).split(targets, 4, seed)[1]) / 400 for seed in range(600)]
    assert np.mean(shares) == pytest.approx(0.25, abs=0.03)
    assert np.var(shares) == pytest.approx(3 / (16 * (4 * alpha + 1)), rel=0.15)


def test_dirichlet_gives_each_client_the_minimum(digits):
    parts = Dirichlet(0.001, min_samples=40).split(digits, 40, 0)
    assert min(map(len, parts)) >= 40
    assert 0 in map(len, Dirichlet(0.001, min_samples=0).split(digits, 40, 0))
    for tiny in (1e-10, 1e-300):
        assert sum(map(len, Dirichlet(tiny, min_samples=0).split(digits, 40, 0))) == len(digits)


def test_by_label_gives_each_client_exactly_n_labels(digits):
    for each, count in ((1, 10), (2, 10), (3, 17), (10, 4), (2, 700)):
        parts = ByLabel(each).split(digits, count, 3)
        assert {len(labels) for labels in labels_of(digits, parts)} == {each}
    sizes = list(map(len, ByLabel(2).split(digits, 20, 0)))
    assert max(sizes) < 1.2 * min(sizes)


def test_by_label_gives_rare_labels_to_few():
    both = torch.tensor([0] * 100 + [1] * 5)
    assert labels_of(both, ByLabel(2).split(both, 3, 0)) == [{0, 1}] * 3
    targets = torch.tensor([0] * 900 + [1] * 95 + [2] * 5)
    parts = ByLabel(1).split(targets, 100, 0)
    holders = np.bincount([next(iter(labels)) for labels in labels_of(targets, parts)])
    assert holders.tolist() == [89, 10, 1] or holders.tolist() == [90, 9, 1]


def test_shards_are_pieces_of_the_sorted_data(digits):
    parts = Shards(2).split(digits, 100, 0)
    assert {len(part) for part in parts} <= {16, 17, 18}
    # A piece of 9 samples has one label, or two at a border.
    assert max(len(labels) for labels in labels_of(digits, parts)) <= 4
    assert np.mean([len(labels) for labels in labels_of(digits, parts)]) < 2.3


def test_thousands_of_clients(digits):
    targets = digits.repeat(6)
    for partition in (IID(), Dirichlet(0.1), ByLabel(2), Shards(2)):
        parts = partition.split(targets, 5000, 0)
        assert len(parts) == 5000 and min(map(len, parts)) >= 1
        # Each has memory of its own, so that one can be sent without the others.
        assert all(part.untyped_storage().nbytes() == 8 * len(part) for part in parts[:50])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda t: IID().split(t, 61, 0), "60 samples are not enough to give each of 61 clients at least 1"),
        (lambda t: Dirichlet(1, 7).split(t, 10, 0), "Use at most 8 clients"),
        (lambda t: Shards(3).split(t, 21, 0), "not enough"),
        (lambda t: ByLabel(4).split(t, 5, 0), "can't have 4 labels, as the data set has 3"),
        (lambda t: ByLabel(1).split(t, 2, 0), "do not cover the 3 labels. Use labels_per_client=2, or 3 clients"),
        (lambda t: ByLabel(2).split(t, 50, 0), "not enough samples to give 2 labels"),
        (lambda t: ByLabel(1).split(t + 0.5, 2, 0), "integers. Use IID"),
        (lambda t: Dirichlet(1).split(torch.eye(3), 2, 0), r"argmax\(1\)"),
        (lambda t: Dirichlet(1).split(torch.full((4,), torch.nan), 2, 0), "integers"),
        (lambda t: IID().split(t, 0, 0), "count must be an integer of at least 1"),
        (lambda t: IID().split(t, True, 0), "count must be"),
        (lambda t: IID().split(t, 2, -1), "seed must be"),
        (lambda t: IID().split(t.tolist(), 2, 0), "a tensor with one for each"),
        (lambda t: IID().split(torch.tensor(1), 2, 0), "a tensor with one for each"),
        (lambda t: IID().split(t[:0], 2, 0), "0 samples are not enough"),
        (lambda t: Dirichlet(0), "alpha must be a number above 0"),
        (lambda t: Dirichlet(float("nan")), "alpha must be"),
        (lambda t: Dirichlet(True), "alpha must be"),
        (lambda t: Dirichlet(1, -1), "min_samples must be"),
        (lambda t: ByLabel(0), "labels_per_client must be"),
        (lambda t: Shards(1.5), "shards_per_client must be"),
    ],
)  # fmt: skip
def test_impossible_partitions_raise_clear_errors(make, text):
    with pytest.raises(TrainingError, match=text):
        make(torch.arange(60) % 3)


def test_no_samples_for_clients_that_may_be_empty():
    for partition in (IID(0), Dirichlet(1, 0)):
        assert [len(part) for part in partition.split(torch.zeros(0, dtype=torch.int64), 3, 0)] == [0, 0, 0]


def test_labels_may_be_columns_floats_and_truths(digits):
    expected = Dirichlet(0.5).split(digits, 5, 0)
    for targets in (digits.float(), digits.view(-1, 1), digits.to(torch.uint8)):
        assert all(map(torch.equal, expected, Dirichlet(0.5).split(targets, 5, 0)))
    assert len(ByLabel(1).split(digits > 4, 6, 0)) == 6


def test_a_simulation_is_made_of_any_of_them(digits):
    data = torch.zeros(len(digits), 1)
    clients = Simulation((data, digits), 10, ByLabel(2), seed=1)
    assert {len(set(client.dataset.tensors[1].tolist())) for client in clients} == {2}
    assert "ByLabel(labels_per_client=2)" in repr(clients)
