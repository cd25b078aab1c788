"""Fixed point: exact sums without overflow, means within a stated bound, errors for values out of range."""

from __future__ import annotations

import math

import pytest
import torch
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st

from syft.exceptions import TrainingError
from syft.federated.client.secure_aggregation import key_agreement
from syft.federated.client.secure_aggregation.packing import NUMBERS, SUM_LIMIT, Packing, check_range

FEW = settings(max_examples=60, deadline=None)
VALUES = st.floats(-1024, 1024, width=32)


def rows(count, size):
    row = st.lists(VALUES, min_size=size, max_size=size)
    return st.lists(st.tuples(row, st.integers(0, 2**20)), min_size=count, max_size=count)


@FEW
@given(st.integers(3, 9), st.booleans(), st.data())
def test_means_are_within_the_bound_of_plain_means(count, weighted, data):
    given_rows = data.draw(rows(count, 3))
    packing = Packing(count, 3, [], weighted, 1024.0, 2**20)
    updates, samples = [torch.tensor(row) for row, _ in given_rows], [number for _, number in given_rows]
    weights = samples if weighted else [1] * count
    total = sum(packing.pack(u, s, None, []) for u, s in zip(updates, samples, strict=True))
    sums = packing.unpack(total)
    assert (sums.samples, sums.count, sums.loss) == (sum(samples), count, None)
    if sum(weights):
        exact = sum(u.double() * w for u, w in zip(updates, weights, strict=True)) / sum(weights)
        bound = packing.bound(count, sum(weights)) + 1e-12 * float(exact.abs().max())
        assert float((sums.update / sum(weights) - exact).abs().max()) <= bound


@FEW
@given(st.lists(st.tuples(st.floats(-100, 100), st.integers(1, 1000)), min_size=3, max_size=8), st.data())
def test_losses_and_extra_vectors_are_summed_as_well(clients, data):
    packing = Packing(len(clients), 2, [2, 1], True, 64.0, 2**10)
    extras = [data.draw(st.lists(st.floats(-64, 64, width=32), min_size=3, max_size=3)) for _ in clients]
    packed = [
        packing.pack(torch.zeros(2), samples, loss, [torch.tensor(extra[:2]), torch.tensor(extra[2:])])
        for (loss, samples), extra in zip(clients, extras, strict=True)
    ]
    sums = packing.unpack(sum(packed))
    whole = sum(samples for _, samples in clients)
    fitting = [(loss, samples) for loss, samples in clients if abs(loss * samples) < 64 * 2**10]
    if fitting == clients:
        assert sums.loss == pytest.approx(sum(loss * samples for loss, samples in clients) / whole, abs=1e-6)
    exact = torch.tensor(extras, dtype=torch.float64).sum(0)
    assert (torch.cat(sums.extras) - exact).abs().max() <= len(clients) * 2.0**-packing.extra_bits + 1e-12
    assert [vector.shape[0] for vector in sums.extras] == [2, 1]


@FEW
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30))
def test_no_vector_gets_longer(values):
    update = torch.tensor(values, dtype=torch.float64)
    packing = Packing(3, len(values), [], False, 1024.0, 1)
    alone = packing.unpack(packing.pack(update, 1, None, [])).update
    assert bool((alone.abs() <= update.abs()).all()) and float(alone.norm()) <= float(update.norm())


@pytest.mark.parametrize("clients", [3, 100, 10_000, 10**6])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_largest_values_of_all_clients_fit(clients, weighted):
    packing = Packing(clients, 1, [1], weighted, 1024.0, 2**20)
    largest = torch.tensor([1024.0], dtype=torch.float64)
    packed = packing.pack(largest, 2**20, 1024.0, [largest])
    for sign in (1, -1):
        signed = packing.pack(sign * largest, 2**20, None, [sign * largest])
        total = int(signed[0]) * clients
        assert abs(total) <= SUM_LIMIT and total / 2**packing.bits == sign * 1024.0 * clients * (
            2**20 if weighted else 1
        )
    assert all(abs(int(word)) * clients <= SUM_LIMIT for word in packed)
    assert packing.bits == math.floor(math.log2(SUM_LIMIT / clients / 1024 / (2**20 if weighted else 1)))
    assert packing.bound(clients, clients) <= 2.0**-12


def test_precision_does_not_get_lost_with_few_clients():
    assert Packing(100, 1, [], True, 1024.0, 2**20).bits >= 25
    assert Packing(100, 1, [], False, 1024.0, 2**20).bits >= 45


def test_values_that_do_not_fit_raise_and_are_not_clipped():
    packing = Packing(4, 2, [1], True, 1.0, 10)
    good = torch.tensor([1.0, -1.0])
    packing.pack(good, 10, None, [torch.ones(1)])
    for update, samples, extra, text in (
        (good * 2.1, 10, 1.0, "update of this client times its number of samples"),
        (good, 25, 1.0, "update of this client times its number of samples"),
        (good, 1, 2.1, "extra vector of this client is too large"),
        (good * float("nan"), 1, 1.0, "not finite"),
        (good * float("inf"), 1, 1.0, "not finite"),
        (good, 1, float("nan"), "not finite"),
        (good, 2**61, 1.0, "Too many samples"),
        (good, -1, 1.0, "Too many samples"),
        (torch.ones(3), 1, 1.0, "size"),
    ):
        with pytest.raises(TrainingError, match=text):
            packing.pack(update, samples, None, [torch.tensor([extra])])
    with pytest.raises(TrainingError, match="size"):
        packing.pack(good, 1, None, [])
    with pytest.raises(TrainingError, match="smaller max_update or max_samples"):
        Packing(10**6, 2, [], True, 2.0**20, 2**20)


def test_a_loss_that_does_not_fit_is_left_out_alone():
    packing = Packing(3, 1, [], True, 1.0, 10)
    zero = torch.zeros(1)
    sums = packing.unpack(
        packing.pack(zero, 5, 1e9, []) + packing.pack(zero, 5, 0.5, []) + packing.pack(zero, 2, None, [])
    )
    assert (sums.loss, sums.samples, sums.count) == (0.5, 12, 3)
    assert packing.words == 1 + NUMBERS


def test_empty_vectors_and_no_samples():
    packing = Packing(3, 0, [0], True, 1.0, 1)
    sums = packing.unpack(packing.pack(torch.zeros(0), 0, None, [torch.zeros(0)]) * 3)
    assert (sums.samples, sums.count, sums.update.shape) == (0, 3, (0,))


@pytest.mark.parametrize(
    "bad", [(0, 1), (-1.0, 1), (float("inf"), 1), (True, 1), ("1", 1), (1.0, 0), (1.0, 1.0), (1.0, 2**54), (2.0**41, 1)]
)
def test_bounds_that_are_none_are_refused(bad):
    with pytest.raises(TrainingError):
        check_range(*bad)


# --- keys and seals ---------------------------------------------------------------------------------------------------


@FEW
@given(st.binary(min_size=1, max_size=80), st.binary(min_size=32, max_size=32), st.binary(max_size=40))
def test_keys_are_those_of_hkdf(secret, salt, info):
    expected = HKDF(SHA256(), 32, salt, key_agreement.joined(info, 7)).derive(secret)
    assert key_agreement.derive(secret, salt, info, 7) == expected


@FEW
@given(st.lists(st.binary(max_size=9), max_size=4), st.lists(st.binary(max_size=9), max_size=4))
def test_joined_parts_are_unambiguous(first, second):
    assert (key_agreement.joined(*first) == key_agreement.joined(*second)) == (first == second)


def test_seals_are_for_one_sender_receiver_and_round():
    root, salt, text = bytes(32), b"s" * 32, b"share" * 5
    sealed = key_agreement.seal(root, salt, 1, 2, text)
    assert key_agreement.unseal(root, salt, 1, 2, sealed) == text and text not in sealed
    for index in range(len(sealed)):
        broken = sealed[:index] + bytes([sealed[index] ^ 4]) + sealed[index + 1 :]
        assert key_agreement.unseal(root, salt, 1, 2, broken) is None
    for root_, salt_, sender, receiver in (
        (b"r" * 32, salt, 1, 2), (root, b"t" * 32, 1, 2), (root, salt, 2, 1), (root, salt, 1, 3)
    ):  # fmt: skip
        assert key_agreement.unseal(root_, salt_, sender, receiver, sealed) is None
    confirmation = key_agreement.confirmation(root, salt, 1, 2, text)
    assert confirmation not in (
        key_agreement.confirmation(root, salt, 2, 1, text),
        key_agreement.confirmation(root, salt, 1, 2, text + b"x"),
    )


def test_two_clients_agree_on_a_mask_that_depends_on_all_it_is_bound_to():
    mine, theirs = key_agreement.draw(32), key_agreement.draw(32)
    common = key_agreement.PairwiseSecret(mine).agree(key_agreement.public_of(theirs))
    assert common == key_agreement.PairwiseSecret(theirs).agree(key_agreement.public_of(mine))
    first = key_agreement.mask(common, b"salt", 50, b"pair", 0, 1)
    assert torch.equal(first, key_agreement.mask(common, b"salt", 50, b"pair", 0, 1))
    for salt, *info in ((b"other", b"pair", 0, 1), (b"salt", b"pair", 0, 2), (b"salt", b"self", 0, 1)):
        assert not (first == key_agreement.mask(common, salt, 50, *info)).any()
