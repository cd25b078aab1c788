"""`x.child.field`, 2**64, is a number for torch too."""

from __future__ import annotations

import copy
import operator
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from syft.core.wide_int import WideInt

FIELD = WideInt(2**64)
LOW, HIGH = -(2**63), 2**63 - 1
INT64 = st.integers(LOW, HIGH)
WIDE = st.integers(2**63, 2**66) | st.integers(-(2**66), -(2**63) - 1)
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
IN_RING = [operator.add, operator.sub, operator.mul, operator.mod, operator.and_, operator.or_, operator.xor]


def ring(number):
    return (number - LOW) % 2**64 + LOW


@pytest.fixture
def parties(make_worker):
    return [make_worker(name) for name in ("bob", "alice", "bill")]


def test_t9_tutorial_reconstructs_shares_by_hand(parties):
    for secret in (25, -3, 0, 2**62 - 1):
        x = torch.tensor([secret]).share(*parties)
        q = x.child.field
        assert q == 2**64 and isinstance(q, int)
        shares = [next(iter(worker._objects.values())) for worker in parties]
        assert ((shares[0] + shares[1] + shares[2]) % q).tolist() == [secret]
        assert (sum(shares) % q).tolist() == [secret] == (torch.stack(shares).sum(0) % q).tolist()
        assert all(torch.equal(share % q, share) for share in shares)
        del x


def test_t9_pointers_to_shares_and_shared_tensors(parties):
    x = torch.tensor([25, -4]).share(*parties)
    q = x.child.field
    pointers = x.child.pointers()
    for pointer in (pointers[0], pointers[0].wrap()):
        result = pointer % q
        assert type(result) is type(pointer) and torch.equal(result.get(), pointer.copy().get())
    assert (pointers[0].wrap() < q).get().all() and not (pointers[0].wrap() == q).get().any()
    assert (x % q).get().tolist() == [25, -4] == (x + q).get().tolist() == (x - q).get().tolist()


@given(INT64, WIDE, st.sampled_from(IN_RING))
def test_t9_calls_are_exact_in_the_ring(value, number, function):
    assert function(torch.tensor([value]), WideInt(number)).tolist() == [ring(function(value, number))]
    if function not in (operator.mod,):
        assert function(WideInt(number), torch.tensor([value])).tolist() == [ring(function(number, value))]


@given(INT64, WIDE, st.sampled_from(COMPARISONS))
def test_t9_comparisons_are_exact(value, number, function):
    assert function(torch.tensor([value]), WideInt(number)).tolist() == [function(value, number)]
    assert function(WideInt(number), torch.tensor([value])).tolist() == [function(number, value)]


@given(INT64.filter(bool), WIDE)
def test_t9_quotients_are_exact(value, number):
    t, wide = torch.tensor([value]), WideInt(number)
    assert (t // wide).tolist() == [value // number]
    assert (wide % t).tolist() == [number % value]
    assert torch.fmod(t, wide).tolist() == [
        value - int(value / number) * number if abs(value) == abs(number) else value
    ]
    assert torch.allclose(t / wide, torch.tensor([value / number]), rtol=1e-6)
    if LOW <= number // value <= HIGH:
        assert (wide // t).tolist() == [number // value]
    else:
        with pytest.raises(OverflowError):
            wide // t


def test_t9_decoding_of_negative_numbers_by_hand():
    half = FIELD // 2
    t = torch.tensor([3, -3, LOW, HIGH])
    assert type(half) is WideInt and torch.where(t > half, t - FIELD, t).tolist() == t.tolist()
    assert type(FIELD - 1) is WideInt and (t & (FIELD - 1)).tolist() == t.tolist()
    assert type(FIELD // 2**10) is int and type(-FIELD) is WideInt


def test_t9_other_dtypes_shapes_and_forms():
    t = torch.tensor([[1, -2], [3, 4]], dtype=torch.int32)
    assert (t % FIELD).tolist() == t.tolist() and (t % FIELD).dtype is torch.int64
    x = torch.tensor([1.5, -2.0])
    assert torch.equal(x * FIELD, x * 2.0**64) and torch.equal(x % FIELD, x % 2.0**64)
    assert (torch.empty(0, dtype=torch.int64) % FIELD).shape == (0,)
    assert torch.remainder(torch.tensor([7]), FIELD).tolist() == [7] == torch.tensor([7]).remainder(FIELD).tolist()
    t = same = torch.tensor([5, -6])
    t %= FIELD
    t += FIELD
    assert t is same and t.tolist() == [5, -6]
    with pytest.raises(TypeError, match="Python numbers"):
        torch.gcd(torch.tensor([2]), FIELD)
    with pytest.raises(TypeError):
        torch.tensor([2]) ** FIELD


def test_t9_it_is_an_int_everywhere_else():
    assert FIELD == 2**64 and hash(FIELD) == hash(2**64) and f"{FIELD}" == str(2**64) and repr(FIELD) == str(2**64)
    assert 25 % FIELD == 25 and -3 % FIELD == 2**64 - 3 and pow(3, 5, FIELD) == 243 and FIELD / 2 == 2.0**63
    assert copy.deepcopy(FIELD) == FIELD == pickle.loads(pickle.dumps(FIELD))
