"""Whole numbers outside [-2**62, 2**62) are refused where they are shared; inside, comparisons are right."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import syft as sy
from syft.exceptions import SyftError
from syft.mpc.values.encoding import encode_plain
from syft.mpc.values.sharing import generate_shares
from tests.helpers.mpc.protocols import cast_of

BOUND = 2**62
OUTSIDE = [-(2**63), -BOUND - 1, BOUND, 2**63 - 1]
EDGES = [-BOUND, -BOUND + 1, -1, 0, 1, BOUND - 1]
REFUSAL = r"whole numbers in \[-2\*\*62, 2\*\*62\)"


@pytest.fixture(scope="module")
def cast():
    yield from cast_of("range", 4)


@pytest.fixture(params=[2, 3, 4])
def parties(request, cast):
    return cast[0][: request.param]


@pytest.fixture
def provider(cast):
    return cast[1]


@pytest.mark.parametrize("value", OUTSIDE)
def test_share_refuses_values_out_of_range(value, parties, provider):
    x = torch.tensor([[3, -4], [5, value]])
    with pytest.raises(SyftError, match=REFUSAL) as error:
        x.share(*parties, crypto_provider=provider)
    assert "index (1, 1)" in str(error.value) and str(abs(value)) not in str(error.value)
    with pytest.raises(SyftError, match=REFUSAL):
        x.share_(*parties, crypto_provider=provider)
    assert x.tolist() == [[3, -4], [5, value]]  # share_ left it as it was
    with pytest.raises(SyftError, match=REFUSAL):
        torch.tensor(value).share(*parties, crypto_provider=provider)
    with pytest.raises(SyftError, match=REFUSAL):
        generate_shares(x, len(parties))
    with pytest.raises(SyftError, match=REFUSAL):
        sy.AdditiveSharingTensor(crypto_provider=provider, child=x).init_shares(*parties)


def test_the_value_furthest_out_of_range_is_named(parties):
    with pytest.raises(SyftError, match=r"index \(0,\)"):
        torch.tensor([-(2**63), 2**62, 7]).share(*parties)
    with pytest.raises(SyftError, match=r"index \(2,\)"):
        torch.tensor([-(2**62) - 1, 7, 2**63 - 1]).share(*parties)


@pytest.mark.parametrize("protocol", ["beaver", "fss"])
def test_values_at_the_edges_compare_right(protocol, parties, provider):
    x = torch.tensor(EDGES)
    shared = x.share(*parties, crypto_provider=provider, protocol=protocol)
    for other in (0, 1, -1, 5):
        assert torch.equal((shared > other).get().bool(), x > other)
        assert torch.equal((shared <= other).get().bool(), x <= other)
    assert torch.equal(shared.get(), x)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5), st.integers(2, 4))
def test_shares_are_made_exactly_of_values_in_range(numbers, count):
    x = torch.tensor(numbers)
    if all(-BOUND <= number < BOUND for number in numbers):
        assert torch.equal(sum(generate_shares(x, count)), x)
    else:
        with pytest.raises(SyftError, match=REFUSAL):
            generate_shares(x, count)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.bool, torch.uint32])
def test_narrow_whole_numbers_are_taken_at_their_extremes(dtype, parties, provider):
    ends = [0, 1] if dtype is torch.bool else [torch.iinfo(dtype).min, torch.iinfo(dtype).max]
    x = torch.tensor(ends, dtype=dtype)
    assert x.share(*parties, crypto_provider=provider).get().tolist() == [int(end) for end in ends]


def test_unsigned_words(parties):
    fits = torch.tensor([2**62 - 1, 0], dtype=torch.uint64)
    assert fits.share(*parties).get().tolist() == [2**62 - 1, 0]
    for value in (2**62, 2**63, 2**64 - 1):
        with pytest.raises(SyftError, match=r"index \(1,\)"):
            torch.tensor([5, value], dtype=torch.uint64).share(*parties)


def test_empty_tensors_are_in_range(parties, provider):
    for dtype in (torch.int64, torch.uint8, torch.bool):
        empty = torch.zeros(0, 3, dtype=dtype).share(*parties, crypto_provider=provider)
        assert empty.get().shape == (0, 3)


def test_encoded_numbers_out_of_range_are_not_shared(parties, provider):
    """Their whole numbers are here, so a sum that left the range shows when it is shared."""
    x = torch.tensor([2.0**60], dtype=torch.float64).fix_precision(precision_fractional=0)
    total = x + x + x + x  # 2^62
    with pytest.raises(SyftError, match=REFUSAL):
        total.share(*parties, crypto_provider=provider)
    with pytest.raises(SyftError, match="can't be encoded"):
        encode_plain(torch.tensor([2**61]), 1, 2**62)
    assert encode_plain(torch.tensor([2**61 - 1, -(2**61)]), 1, 2**62).tolist() == [2**61 - 1, -(2**61)]


@pytest.mark.parametrize("value", OUTSIDE)
def test_a_worker_refuses_without_naming_positions(value, make_worker, kind, nothing_left):
    holder, alice, bob, carol = (make_worker(name, kind) for name in ("holder", "alice", "bob", "carol"))
    x = torch.tensor([7, value]).send(holder)
    with pytest.raises(SyftError, match=REFUSAL) as error:
        x.share(alice, bob, crypto_provider=carol).get()
    assert "index" not in str(error.value)
    fits = torch.tensor([7, -(2**62)]).send(holder)
    assert fits.share(alice, bob, crypto_provider=carol).get().get().tolist() == [7, -(2**62)]
    del x, fits, error
    nothing_left(holder, alice, bob, carol)
