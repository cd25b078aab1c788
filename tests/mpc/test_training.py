"""Encrypted training on digits: each step equals training in the clear, and so does the final accuracy."""

import functools

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn, optim

from tests.helpers.mpc.protocols import cast_of

FORM = {"base": 2, "precision_fractional": 16}
BATCH = 32


@pytest.fixture(scope="module")
def cast():
    yield from cast_of("training", 3)


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


@functools.cache
def digits():
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    return torch.tensor(images, dtype=torch.float32)[order] / 16, torch.tensor(labels)[order]


def training_set():
    return tuple(part[:1400] for part in digits())


def net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))


def squares(out, labels):
    return F.mse_loss(out, F.one_hot(labels, 10).float())


def accuracy(model):
    images, labels = (part[1400:] for part in digits())
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()


def decrypted(tensor):
    return (tensor.get() if tensor.child.is_shared else tensor).float_precision()


def train(model, make, loss, steps, encrypt=lambda data: data):
    """Train, and return the losses; labels are public where the loss is, images are whatever `encrypt` makes of them."""
    optimizer = make(model.parameters())
    images, labels = training_set()
    losses = []
    for number in range(steps):
        batch = torch.arange(number * BATCH, (number + 1) * BATCH) % len(labels)
        optimizer.zero_grad()
        found = loss(model(encrypt(images[batch])), labels[batch])
        found.backward()
        optimizer.step()
        losses.append(found.detach())
    return losses


OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.5),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "Nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "Adam": lambda p: optim.Adam(p, lr=0.01),
}
LOSSES = {"cross_entropy": F.cross_entropy, "mse": squares}


def check(name, loss, steps, parties=(), provider=None, trained=True):
    """Train in the clear and encrypted from the same weights on the same batches."""

    def encrypt(data):
        encoded = data.fix_precision(**FORM)
        return encoded.share(*parties, crypto_provider=provider) if parties else encoded

    plain, private = net(), net()
    meant = train(plain, OPTIMIZERS[name], LOSSES[loss], steps)
    private.fix_precision(**FORM)
    if parties:
        private.share(*parties, crypto_provider=provider)
    found = [decrypted(one) for one in train(private, OPTIMIZERS[name], LOSSES[loss], steps, encrypt)]
    worst = max(abs(one - other).item() for one, other in zip(found, meant, strict=True))
    assert worst < 0.02
    assert meant[-1] < meant[0]
    if parties:
        private.get()
    private.float_precision()
    assert not trained or abs(accuracy(private) - accuracy(plain)) <= 0.01


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("loss", LOSSES)
def test_fifty_steps_in_fixed_precision(name, loss):
    check(name, loss, 50)


ON_SHARES = [("SGD", "cross_entropy"), ("Nesterov", "cross_entropy"), ("momentum", "mse"), ("Adam", "cross_entropy")]


@pytest.mark.parametrize(("name", "loss"), ON_SHARES)
def test_fifty_steps_on_shares(name, loss, cast):
    parties, provider = cast
    check(name, loss, 50, parties[:2], provider)


def test_fifty_steps_on_shares_of_three(cast):
    check("Nesterov", "cross_entropy", 50, *cast)


def test_ten_steps_of_adam_on_shares_of_three(cast):
    """In the middle of training, where accuracy changes by points with each step: losses alone tell."""
    check("Adam", "cross_entropy", 10, *cast, trained=False)


def test_private_labels(cast):
    """Labels are shared as the whole numbers they are."""
    parties, provider = cast
    plain, private = net(), net()
    private.fix_precision(**FORM).share(*parties[:2], crypto_provider=provider)
    images, labels = (part[:BATCH] for part in training_set())
    hidden = labels.share(*parties[:2], crypto_provider=provider)
    first, second = (optim.SGD(model.parameters(), lr=0.5) for model in (plain, private))
    for _ in range(3):
        meant, found = F.cross_entropy(plain(images), labels), F.cross_entropy(private(images), hidden)
        for optimizer, loss in ((first, meant), (second, found)):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert abs(decrypted(found) - meant.detach()) < 2e-3
