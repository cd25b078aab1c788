"""Models that are shared: frozen parameters, fetched gradients, loaded states, and clipping."""

import pytest
import torch
from torch import nn

import syft as sy
from syft.exceptions import SyftError
from tests.helpers.mpc.protocols import cast_of

FORMAT = {"base": 2, "precision_fractional": 16}


@pytest.fixture(scope="module")
def cast():
    yield from cast_of("shared_models", 2)


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


def encrypted(module, cast, **options):
    parties, provider = cast
    return module.fix_precision(**FORMAT).share(*parties, crypto_provider=provider, **options)


def shared(tensor, cast, **options):
    parties, provider = cast
    return tensor.fix_prec(**(options or FORMAT)).share(*parties, crypto_provider=provider)


@pytest.mark.parametrize("options", [{}, {"requires_grad": True}])
def test_a_model_is_complete_after_a_gradient_was_fetched(cast, options):
    model = nn.Linear(2, 1)
    before = model.bias.detach().clone()
    encrypted(model, cast, **options)
    model(shared(torch.ones(3, 2), cast)).pow(2).mean().backward()
    model.bias.grad.get()
    model.get().float_precision()
    assert torch.allclose(model.bias.detach(), before, atol=1e-4)
    assert (model.bias.grad is None) is (not options)  # under an AutogradTensor a copy is fetched
    assert model.weight.grad is not None


def test_frozen_parameters_stay_frozen(cast):
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[0].requires_grad_(False)
    encrypted(model, cast, requires_grad=True)
    assert [p.requires_grad for p in model.parameters()] == [False, False, True, True]
    model.get().float_precision()
    other = encrypted(nn.Linear(2, 1).requires_grad_(False), cast, requires_grad=True)
    assert all(p.requires_grad for p in other.parameters())


def test_shared_tensors_stay_shared_when_public_numbers_are_written_to_them(cast):
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


def test_a_plan_is_refused_for_encryption_before_it_was_built():
    class Net(sy.Plan):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 1)

        def forward(self, x):
            return self.fc(x)

    with pytest.raises(SyftError, match="must be built before"):
        Net().fix_precision_()
    with pytest.raises(SyftError, match="must be built before"):
        Net().share_("a", "b")


def test_the_precision_is_refused_as_a_positional_argument():
    with pytest.raises(TypeError, match="precision_fractional=5"):
        torch.ones(2).fix_precision(5)
