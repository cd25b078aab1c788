"""What went wrong once while people trained and served encrypted models."""

import socket

import pytest
import torch
from torch import nn

import syft as sy
from syft.exceptions import ProtocolError, SyftError
from syft.mpc.protocols.exponential import exp
from syft.mpc.protocols.lookup import piecewise
from syft.mpc.values.function_tables import table_of
from syft.workers.transport import framing
from syft.workers.transport.framing import Connection
from tests.mpc.running import cast_of, run

FORMAT = {"base": 2, "precision_fractional": 16}


@pytest.fixture(scope="module")
def cast():
    yield from cast_of("learning", 2)


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


def encrypted(module, cast, **options):
    parties, provider = cast
    return module.fix_precision(**FORMAT).share(*parties, crypto_provider=provider, **options)


def shared(tensor, cast, **options):
    parties, provider = cast
    return tensor.fix_prec(**(options or FORMAT)).share(*parties, crypto_provider=provider)


def test_a_gradient_that_was_fetched_does_not_cost_the_model(cast):
    model = nn.Linear(2, 1)
    before = model.bias.detach().clone()
    encrypted(model, cast, requires_grad=True)
    model(shared(torch.ones(3, 2), cast)).pow(2).mean().backward()
    model.bias.grad.get()
    model.get().float_precision()
    assert torch.allclose(model.bias.detach(), before, atol=1e-4)
    assert model.bias.grad is None
    assert model.weight.grad is not None


def test_what_is_frozen_stays_frozen(cast):
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[0].requires_grad_(False)
    encrypted(model, cast, requires_grad=True)
    assert [p.requires_grad for p in model.parameters()] == [False, False, True, True]
    model.get().float_precision()
    other = encrypted(nn.Linear(2, 1).requires_grad_(False), cast, requires_grad=True)
    assert all(p.requires_grad for p in other.parameters())


def test_what_is_shared_stays_shared_when_public_numbers_are_written_to_it(cast):
    model = nn.Linear(2, 1)
    state = {name: torch.full_like(value, 0.5) for name, value in model.state_dict().items()}
    encrypted(model, cast)
    model.load_state_dict(state)
    assert model.weight.child.is_shared
    x = shared(torch.ones(2), cast)
    x.zero_()
    assert x.child.is_shared
    assert x.get().float_prec().tolist() == [0, 0]
    model.get().float_precision()
    assert model.weight.tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize("form", [FORMAT, {"precision_fractional": 3}])
def test_large_gradients_are_clipped_by_a_small_number(form, cast):
    gradient = torch.tensor([1000.0, 2000.0, 3000.0, -2000.0, 100.0])
    weight = shared(torch.zeros(5), cast, **form).requires_grad_()
    weight.grad = shared(gradient, cast, **form)
    norm = nn.utils.clip_grad_norm_([weight], 1.0)
    assert torch.allclose(norm.get().float_prec(), gradient.norm(), rtol=1e-4)
    assert torch.allclose(weight.grad.get().float_prec(), gradient / gradient.norm(), atol=2e-3)


@pytest.mark.parametrize("eps", [1e-8, 0.1, 1.0])
def test_vectors_shorter_than_eps_are_divided_by_eps(eps, cast):
    x, y = torch.tensor([[0.3, 0.1], [0.02, 0.01]]), torch.tensor([[0.2, 0.1], [0.5, 0.1]])
    functional = nn.functional
    found = functional.cosine_similarity(shared(x, cast), shared(y, cast), eps=eps).get().float_prec()
    assert torch.allclose(found, functional.cosine_similarity(x, y, eps=eps), atol=2e-3)
    found = functional.normalize(shared(x, cast), eps=eps).get().float_prec()
    assert torch.allclose(found, functional.normalize(x, eps=eps), atol=2e-3)


@pytest.mark.parametrize("correction", [0, 1, 1.5])
def test_deviations_with_any_correction(correction, cast):
    x = torch.tensor([1.0, 3.0])
    found = torch.std(shared(x, cast), correction=correction).get().float_prec()
    assert torch.allclose(found, torch.std(x, correction=correction), atol=1e-3)


def test_a_plan_is_encrypted_after_it_was_built():
    class Net(sy.Plan):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 1)

        def forward(self, x):
            return self.fc(x)

    with pytest.raises(SyftError, match="after it was built"):
        Net().fix_precision_()
    with pytest.raises(SyftError, match="after it was built"):
        Net().share_("a", "b")


def test_digits_have_names():
    with pytest.raises(TypeError, match="precision_fractional=5"):
        torch.ones(2).fix_precision(5)


@pytest.mark.parametrize(
    "option",
    [
        {"shift": 1 << 33},
        {"shift": -1},
        {"low": 64},
        {"drop": 60},
        {"factor": 1 << 70},
        {"edges": (5, 4)},
        {"edges": (0, 1, 2)},
        {"outside": (1, 2)},
        {"times": 0.5},
    ],
)
def test_tables_that_are_none_are_refused_before_anything_is_dealt(option):
    table = table_of("sigmoid", 1 << 16)
    with pytest.raises(ProtocolError):
        run(piecewise, 2, torch.tensor([1, 2]), table.coefficients, public=(1,), **{**table.options, **option})


@pytest.mark.parametrize("out", [1 << 16, 1 << 26, 1 << 29, 1 << 40])
def test_exponentials_of_negative_numbers_have_room_in_every_format(out):
    x = torch.tensor([0, -(1 << 15), -(1 << 16), -(1 << 20)])
    found = run(exp, 2, x, scale=1 << 16, out=out, negative=True).double() / out
    assert torch.allclose(found, (x.double() / 65536).exp(), atol=2e-5 + 2 / out)


def test_an_answer_may_be_larger_than_what_is_asked():
    here, there = socket.socketpair()
    with here, there:
        Connection(here, 100, 10_000).write(framing.ANSWER, 1, bytes(5_000))
        kind, number, contents = Connection(there, 10_000).read()
        assert (kind, number, len(contents)) == (framing.ANSWER, 1, 5_000)
