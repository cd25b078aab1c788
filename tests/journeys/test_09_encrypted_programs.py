"""Part 09: secret sharing by hand, then shared tensors: sums, products, comparisons, maxima. All exact."""

import random

import pytest
import torch

Q = 2**61 - 1


def encrypt(x, n_shares=3):
    shares = [random.randint(0, Q) for _ in range(n_shares - 1)]
    return (*shares, (x - sum(shares)) % Q)


def decrypt(shares):
    return sum(shares) % Q


def test_by_hand():
    x, y = encrypt(5), encrypt(10)
    assert decrypt(x) == 5
    assert decrypt([a + b for a, b in zip(x, y, strict=True)]) == 15


@pytest.fixture
def cast(make_worker, kind):
    return [make_worker(name, kind) for name in ("bob", "alice", "bill", "crypto_provider")]


def test_shares(cast, nothing_left):
    bob, alice, bill, _provider = cast
    x = torch.tensor([25]).share(bob, alice, bill)
    shares = [next(iter(worker._objects.values())) for worker in (bob, alice, bill)]
    assert all(share.item() != 25 for share in shares)
    assert sum(share.item() for share in shares) % x.child.field == 25
    assert sum(shares).item() == 25  # tensors of int64 count modulo 2^64 by themselves
    assert x.child.field == 2**64
    assert x.get().tolist() == [25]
    nothing_left(*cast)


def test_sums(cast, nothing_left):
    bob, alice, *_ = cast
    x, y = torch.tensor([25]).share(bob, alice), torch.tensor([5]).share(bob, alice)
    assert (x + y).get().tolist() == [30]
    assert (x - y).get().tolist() == [20]
    del x, y
    nothing_left(*cast)


def test_products(cast, nothing_left):
    bob, alice, bill, provider = cast
    for parties in ((bob, alice), (bob, alice, bill)):
        x = torch.tensor([25]).share(*parties, crypto_provider=provider)
        y = torch.tensor([5]).share(*parties, crypto_provider=provider)
        assert (x * y).get().tolist() == [125]
        m = torch.tensor([[1, 2], [3, 4]]).share(*parties, crypto_provider=provider)
        n = torch.tensor([[2, 0], [0, 2]]).share(*parties, crypto_provider=provider)
        assert m.mm(n).get().tolist() == [[2, 4], [6, 8]]
    del x, y, m, n
    nothing_left(*cast)


def test_comparisons(cast, nothing_left):
    bob, alice, bill, provider = cast
    for parties in ((bob, alice), (bob, alice, bill)):
        x = torch.tensor([25]).share(*parties, crypto_provider=provider)
        y = torch.tensor([5]).share(*parties, crypto_provider=provider)
        assert (x > y).get().tolist() == [1]
        assert (x <= y).get().tolist() == [0]
        assert (x == y).get().tolist() == [0]
        assert (x == y + 20).get().tolist() == [1]
        z = torch.tensor([2, 3, 4, 1]).share(*parties, crypto_provider=provider)
        assert z.max().get().item() == 4
        w = torch.tensor([[2, 3], [4, 1]]).share(*parties, crypto_provider=provider)
        found, places = w.max(dim=0)
        assert found.get().tolist() == [4, 3]
        assert places.get().tolist() == [1, 0]
    del x, y, z, w, found, places
    nothing_left(*cast)
