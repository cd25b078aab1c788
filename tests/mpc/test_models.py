"""Whole models, trained in plain and run encrypted: numbers within a bound of plaintext, and the same classes.

Time of a quiet core: training in plain 7 s, CNN 9 s (two and three parties), ResNet-18 5 s, all others 7 s.
"""

import functools

import pytest
import torch
from torch import nn

from tests.helpers.depth import deep
from tests.helpers.mpc import models as networks
from tests.helpers.mpc.agreement import BITS, MIXES, check, opened, proxy_of, shared
from tests.helpers.mpc.protocols import cast_of

# What encrypted outputs may be off.
BOUND = 1e-2
COUNTS = (2, 3)

# Model -> how it is made, the size of images, steps of training in plain and their rate, digits it is asked about.
MODELS = {
    "MLP": (networks.MLP, 28, 60, 3e-3, 200),
    "CNN": (networks.CNN, 28, 30, 3e-3, 200),
    "LSTM": (networks.LSTMClassifier, 8, 150, 1e-2, 200),
    "transformer": (networks.TransformerClassifier, 8, 100, 3e-3, 200),
    "ResNet-18": (functools.partial(networks.ResNet18, channels=1), 32, 3, 3e-4, 1),
}


@pytest.fixture(scope="module")
def cast():
    """Three parties and a crypto provider; they must be empty at the end."""
    yield from cast_of("models", 3)


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


@functools.cache
def trained(name):
    """A trained model, digits it has not seen, and what it says to them in float64."""
    make, size, steps, rate, count = MODELS[name]
    torch.manual_seed(0)
    model = networks.train(make(), size, steps, rate)
    images = networks.digits(size)[0][-count:]
    with torch.no_grad():
        return model, images, proxy_of(model)(images.double())


def agree(made, expected):
    """Check that numbers are within the bound, and classes the same where the bound leaves no doubt."""
    off = float((opened(made).double() - expected).abs().max())
    assert off < BOUND
    first, second = expected.topk(2).values.unbind(-1)
    sure = first - second > 2 * BOUND
    assert torch.equal(opened(made).argmax(-1)[sure], expected.argmax(-1)[sure])


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", MODELS)
def test_agreement(name, count, cast):
    parties, provider = cast[0][:count], cast[1]
    model, images, expected = trained(name)
    model = shared(proxy_of(model).float(), parties, provider)
    with torch.no_grad():
        pairs = list(zip(images.split(50), expected.split(50), strict=True))
        for some, classes in pairs if count == 2 else pairs[: deep(1, None)]:
            agree(model(shared(some, parties, provider)), classes)


@pytest.mark.parametrize("name", MODELS)
def test_models_are_worth_asking(name):
    _, images, expected = trained(name)
    classes = networks.digits(images.shape[-1])[1][-len(images) :]
    if len(images) > 1:  # ResNet-18 is only warmed up
        assert float((expected.argmax(-1) == classes).double().mean()) > 0.6
        first, second = expected.topk(2).values.unbind(-1)
        assert float((first - second > 2 * BOUND).double().mean()) > 0.95  # of most digits the class is in no doubt
    assert float(expected.abs().max()) > 0.5


@pytest.mark.parametrize("name", ["MLP", "CNN", "LSTM", "transformer"])
def test_inference_mode(name, cast):
    model, images, expected = trained(name)
    with torch.inference_mode():
        agree(model(shared(images[:2], cast[0][:2], cast[1])), expected[:2])


# --- who owns what ----------------------------------------------------------------------------------------------


def small(kind):
    """A small model, and a batch for it."""
    if kind == "MLP":
        return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), torch.randn(4, 6)
    layers = [nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 3)]
    return nn.Sequential(*layers).eval(), torch.randn(2, 2, 6, 6)


@pytest.mark.parametrize("kind", ["MLP", "CNN"])
@pytest.mark.parametrize("mix", MIXES)
def test_public_and_private(mix, kind, cast):
    model, x = small(kind)
    check(model, [x], cast, mix, 3, units=100)


@pytest.fixture(params=["inline", "bytes", "thread"])
def owners(request, make_worker):
    """A hospital and a company with secrets of their own, two parties and a provider, reached in each way."""
    return [make_worker(name, request.param) for name in ("hospital", "company", "alice", "bob", "carol")]


@pytest.mark.parametrize("kind", ["MLP", "CNN"])
def test_data_shared_by_a_hospital(kind, owners):
    hospital, _, alice, bob, carol = owners
    model, x = small(kind)
    expected = proxy_of(model)(x.double()).detach()
    data = x.send(hospital).fix_precision(**BITS).share(alice, bob, crypto_provider=carol)
    assert data.location is hospital  # the client has seen neither numbers nor shares
    shared(model, [alice, bob], carol)
    agree(model(data.get()), expected)


@pytest.mark.parametrize("kind", ["MLP", "CNN"])
def test_a_model_of_a_company_on_data_of_a_hospital(kind, owners):
    hospital, company, alice, bob, carol = owners
    model, x = small(kind)
    expected = proxy_of(model)(x.double()).detach()
    data = x.send(hospital).fix_precision(**BITS).share(alice, bob, crypto_provider=carol).get()
    model.send(company)
    model.fix_precision(**BITS).share(alice, bob, crypto_provider=carol)
    assert model.location is company
    agree(model.get()(data), expected)


def test_gradients_across_owners(owners):
    hospital, _, alice, bob, carol = owners
    model, x = small("MLP")
    proxy = proxy_of(model)
    proxy(x.double()).square().sum().backward()
    data = x.send(hospital).fix_precision(**BITS).share(alice, bob, crypto_provider=carol).get()
    shared(model, [alice, bob], carol).requires_grad_()
    model(data).square().sum().backward()
    for mine, theirs in zip(model.parameters(), proxy.parameters(), strict=True):
        torch.testing.assert_close(opened(mine.grad).double(), theirs.grad, atol=2e-3, rtol=0)
