"""Opened sums of residues and of limbs depend on the result only."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

import syft as sy
from syft.exceptions import ProtocolError
from syft.mpc.protocols.opening_masks import mask_bits
from syft.mpc.values import sharing
from syft.tensors.large_precision import SHARED_BITS

COUNT, BINS = 20_000, 64
# Standard deviations of chi squared; noise goes beyond it once in 10^13 times.
LIMIT = 9.0


@pytest.fixture(params=[2, 3])
def parties(request, make_worker):
    return [make_worker(f"party{number}", "bytes") for number in range(request.param)], make_worker("dealer")


def shared(values, parties):
    owners, dealer = parties
    return sharing.split(values, tuple(owners), dealer)


def distance(left, right):
    """Compare samples by their low bits and by their sizes, column by column; in standard deviations."""
    low, high = torch.minimum(left, right).amin(0), torch.maximum(left, right).amax(0)
    width = ((high - low) // BINS + 1).clamp(min=1)
    found = []
    for one in (lambda x: x % BINS, lambda x: (x - low) // width):
        for a, b in zip(one(left).unbind(1), one(right).unbind(1), strict=True):
            first, second = (torch.bincount(x, minlength=BINS).double() for x in (a, b))
            total = (first + second).clamp(min=1)
            chi, freedom = float(((first - second) ** 2 / total).sum()), BINS - 1
            found.append((chi - freedom) / (2 * freedom) ** 0.5)
    return max(found)


def column(value):
    return torch.full((COUNT, 1), value, dtype=torch.int64)


@pytest.mark.parametrize("modulus", [3, 1171, 2**20 - 3])
def test_openings_of_equal_residues_look_the_same(parties, modulus):
    samples = []
    for multiple in (0, 1, -1, 3):
        opened = sharing.hide_multiples(shared(column(2 + multiple * modulus), parties), modulus).get()
        assert (opened % modulus == 2).all()
        samples.append((opened - 2) // modulus)
    assert max(distance(one, other) for one, other in pairwise(samples)) < LIMIT
    assert distance(column(0), column(1)) > LIMIT  # without masks
    count = len(parties[0])
    assert int(samples[0].max()) < count << mask_bits(modulus, count)


def test_openings_of_equal_sums_of_limbs_look_the_same(parties):
    field = [1, 0, 0]  # 2^32 in limbs of 16 bits
    limbs = {
        "reduced": [0, 5, 7],
        "a carry": [0, 4, 7 + 2**SHARED_BITS],
        "two carries": [1, 4 - 2**SHARED_BITS, 7 + 2**SHARED_BITS],
        "beyond the field": [1, 5, 7],
    }
    expected = (5 << SHARED_BITS) + 7
    samples = []
    for row in limbs.values():
        plain = torch.tensor(row).expand(COUNT, 3).contiguous()
        opened = sharing.hide_carries(shared(plain, parties), SHARED_BITS, field).get()
        assert opened.abs().max() < 2**62
        for first in opened[:50].tolist():
            assert ((first[0] << 32) + (first[1] << 16) + first[2]) % 2**32 == expected
        samples.append(opened)
    assert max(distance(one, other) for one, other in pairwise(samples)) < LIMIT


def crt(value, parties):
    encoded = torch.tensor([value]).fix_precision(storage="crt", field_type="int100", precision_fractional=0)
    return encoded.share(*parties[0], crypto_provider=parties[1])


def large(value, parties):
    encoded = torch.tensor([value]).fix_precision(storage="large", field=2**128, precision_fractional=1)
    return encoded.share(*parties[0], crypto_provider=parties[1])


@pytest.mark.parametrize(("make", "protocol"), [(crt, "hide_multiples"), (large, "hide_carries")])
def test_sums_are_masked_before_they_are_fetched(parties, make, protocol):
    for worker in parties[0]:
        worker.log_msgs = True
    total = make(200.0, parties) + make(1100.0, parties) - make(2000.0, parties)
    assert total.get().float_precision().tolist() == [-700]
    for worker in parties[0]:
        assert protocol in repr(worker.msg_history)
        worker.msg_history.clear()
    assert make(200.0, parties).get().float_precision().tolist() == [200]
    assert protocol not in repr(parties[0][0].msg_history)
    for worker in parties[0]:
        worker.log_msgs = False
        worker.msg_history.clear()


def test_arguments_that_would_leave_the_ring_are_refused(parties):
    x = shared(torch.zeros(2, 3, dtype=torch.int64), parties)
    for run in (
        lambda: sharing.hide_multiples(x, 2**60),
        lambda: sharing.hide_multiples(x, 0),
        lambda: sharing.hide_multiples(x, 2.5),
        lambda: sharing.hide_carries(x, 60, [1, 0, 0]),
        lambda: sharing.hide_carries(x, 16, [1, 0]),
        lambda: sharing.hide_carries(x, 16, [2**40, 0, 0]),
    ):
        with pytest.raises((ProtocolError, sy.exceptions.SyftError), match="mask|limb"):
            run()
