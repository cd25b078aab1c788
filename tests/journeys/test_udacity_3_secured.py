"""The course "Secure and Private AI", section 3: sharing by hand, then encrypted sums, a database, and deep learning."""

import secrets

import pytest
import torch as th
import torch.nn.functional as F
from torch import nn, optim

# A prime, as the course takes one: a sum of shares is meaningless without all of them, whatever the secret is.
Q = 23740629843760239486723


def encrypt(x, n_share=3):
    shares = [secrets.randbelow(Q) for _ in range(n_share - 1)]
    return (*shares, (x - sum(shares)) % Q)


def decrypt(shares):
    return sum(shares) % Q


def add(a, b):
    return [(mine + theirs) % Q for mine, theirs in zip(a, b, strict=True)]


BASE, PRECISION = 10, 4


def encode(x_dec):
    return round(x_dec * BASE**PRECISION) % Q


def decode(x_fp):
    return (x_fp if x_fp <= Q / 2 else x_fp - Q) / BASE**PRECISION


@pytest.mark.parametrize("n_share", [2, 3, 10])
def test_fixed_precision_numbers_shared_by_hand(n_share):
    for x, y in ((5.5, 2.3), (-2.0, 0.5), (-3.25, -0.0001), (0.0, 0.0)):
        a, b = encrypt(encode(x), n_share), encrypt(encode(y), n_share)
        assert len(a) == n_share and decode(decrypt(a)) == x
        assert decode(decrypt(add(a, b))) == pytest.approx(x + y)
        assert decode(decrypt([3 * share % Q for share in a])) == pytest.approx(3 * x)
    assert decrypt(a[:-1]) != encode(x)  # all but one of the shares are worth nothing
    # a product of two encoded numbers has twice the digits, so it is cut, as the library does for the user
    assert decode(encode(0.5) * encode(0.25) // BASE**PRECISION) == 0.125


def test_the_same_with_the_library(make_worker, nothing_left):
    bob, alice, tara = (make_worker(name) for name in ("bob", "alice", "tara"))
    x, y = th.tensor([0.1, 0.2, -0.3]), th.tensor([2.0, -1.5, 4.0])
    assert x.fix_prec().child.child.tolist() == [100, 200, -300]  # three digits, unless told otherwise
    a, b = (part.fix_prec().share(bob, alice, crypto_provider=tara) for part in (x, y))
    assert not any(th.equal(share, x.fix_prec().child.child) for share in bob._objects.values())
    for found, expected in ((a + b, x + y), (a - b, x - y), (a * b, x * y), (a * 2, x * 2), (a + 1, x + 1)):
        th.testing.assert_close(found.get().float_prec(), expected, atol=2e-3, rtol=0)
    del a, b, found
    nothing_left(bob, alice, tara)


def test_federated_learning_with_encrypted_aggregation(make_worker, nothing_left):
    """Project of the section: the workers share their gradients among themselves; only the sum is opened."""
    workers = [make_worker(name) for name in ("bob", "alice", "carol")]
    provider = make_worker("provider")
    data = th.tensor([[1.0, 1], [0, 1], [1, 0], [0, 0], [0.5, 0.2], [0.1, 0.9]])
    target = data @ th.tensor([[0.7], [-0.4]]) + 0.1
    parts = [(x.send(w), y.send(w)) for w, x, y in zip(workers, data.split(2), target.split(2), strict=True)]
    model = nn.Linear(2, 1)
    central = model.copy()
    both = [optim.SGD(one.parameters(), lr=0.2) for one in (model, central)]
    for _ in range(8):
        shared = []
        for worker, (x, y) in zip(workers, parts, strict=True):
            theirs = model.copy().send(worker)
            ((theirs(x) - y) ** 2).sum().backward()
            shared.append(
                [
                    parameter.grad.copy()
                    .fix_prec(precision_fractional=5)
                    .share(*workers, crypto_provider=provider)
                    .get()
                    for parameter in theirs.parameters()
                ]
            )
        for parameter, gradients in zip(model.parameters(), zip(*shared, strict=True), strict=True):
            parameter.grad = sum(gradients[1:], start=gradients[0]).get().float_prec()
        central.zero_grad()
        ((central(data) - target) ** 2).sum().backward()
        for optimizer in both:
            optimizer.step()
    for found, expected in zip(model.parameters(), central.parameters(), strict=True):
        th.testing.assert_close(found, expected, atol=1e-3, rtol=0)
    del parts, theirs, shared, gradients, x, y
    nothing_left(*workers, provider)


ALPHABET = ".abcdefghijklmnopqrstuvwxyz 0123456789-"
KEY_LENGTH, VALUE_LENGTH = 5, 9


def one_hot(text, length):
    return F.one_hot(numbers(text, length), len(ALPHABET))


def numbers(text, length):
    return th.tensor([ALPHABET.index(letter) for letter in text.ljust(length, ".")[:length]])


class EncryptedDB:
    """Values by keys, both shared among workers that learn neither, nor what is asked for."""

    def __init__(self, *owners, crypto_provider):
        self.share = lambda tensor: tensor.share(*owners, crypto_provider=crypto_provider)
        self.rows = []

    def add_entry(self, key, value):
        self.rows.append((self.share(one_hot(key, KEY_LENGTH)), self.share(numbers(value, VALUE_LENGTH))))

    def query(self, key):
        asked = self.share(one_hot(key, KEY_LENGTH))
        found = 0
        for stored, value in self.rows:
            letters = (asked * stored).sum(1)
            matches = letters[0]
            for place in range(1, KEY_LENGTH):
                matches = matches * letters[place]
            found = value * matches + found
        return "".join(ALPHABET[number] for number in found.get()).rstrip(".")


def test_an_encrypted_database(make_worker, nothing_left):
    bob, alice, provider = (make_worker(name) for name in ("bob", "alice", "provider"))
    db = EncryptedDB(bob, alice, crypto_provider=provider)
    for key, value in (("bob", "123-456"), ("sue", "555-0199"), ("bobby", "4 lines")):
        db.add_entry(key, value)
    assert [db.query(key) for key in ("sue", "bob", "bobby", "nobody")] == ["555-0199", "123-456", "4 lines", ""]
    assert not any(th.equal(held, numbers("123-456", VALUE_LENGTH)) for held in bob._objects.values())
    del db
    nothing_left(bob, alice, provider)


def test_encrypted_deep_learning(make_worker, nothing_left):
    """A model that was trained in clear, and the data, are encrypted: workers compute what none of them sees."""
    bob, alice, provider = (make_worker(name) for name in ("bob", "alice", "provider"))
    data = th.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    target = th.tensor([[0.0], [1], [1], [0]])
    model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    opt = optim.Adam(model.parameters(), lr=0.05)
    for _ in range(150):
        opt.zero_grad()
        ((model(data) - target) ** 2).sum().backward()
        opt.step()
    plain = model(data).detach()
    assert th.equal(plain.round(), target)
    encrypted_data = data.fix_precision().share(bob, alice, crypto_provider=provider)
    encrypted_model = model.fix_precision().share(bob, alice, crypto_provider=provider)
    with th.no_grad():
        encrypted_prediction = encrypted_model(encrypted_data)
    th.testing.assert_close(encrypted_prediction.get().float_precision(), plain, atol=0.02, rtol=0)
    model.get().float_precision()
    th.testing.assert_close(model(data).detach(), plain, atol=0.02, rtol=0)
    del encrypted_data, encrypted_prediction
    nothing_left(bob, alice, provider)
