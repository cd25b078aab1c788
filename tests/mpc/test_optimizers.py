"""Optimizers on encrypted parameters: torch's own code takes the steps that it takes in the clear."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn, optim

import syft as sy
from syft.exceptions import UnsupportedOperationError
from syft.mpc import optimizers
from tests.helpers.mpc.protocols import cast_of

FORM = {"base": 2, "precision_fractional": 16}
torch.manual_seed(0)
X, Y = torch.randn(8, 5), torch.randn(8, 3)


@pytest.fixture(scope="module")
def cast():
    yield from cast_of("optimizers", 3)


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


@pytest.fixture
def two(cast):
    parties, provider = cast
    return parties[:2], provider


def net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))


def encrypt(model, cast, form=FORM):
    model.fix_precision(**form)
    if cast[0]:
        model.share(*cast[0], crypto_provider=cast[1])
    return model


def encrypted(tensor, cast, form=FORM):
    made = tensor.fix_precision(**form)
    return made.share(*cast[0], crypto_provider=cast[1]) if cast[0] else made


def decrypt(model):
    if model[0].weight.child.is_shared:
        model.get()
    return model.float_precision()


def decrypted(tensor):
    return (tensor.get() if tensor.child.is_shared else tensor).float_precision()


def distance(model, other):
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    return max((p - q).abs().max().item() for p, q in pairs)


def step(model, optimizer, x, **options):
    optimizer.zero_grad(**options)
    F.mse_loss(model(x), Y).backward()
    optimizer.step()


def both(make, cast, steps=3, schedule=None, form=FORM, **options):
    """Take some steps in the clear and encrypted; returns how far the parameters are from each other."""
    plain, private = net(), encrypt(net(), cast, form)
    x = encrypted(X, cast, form)
    made = [make(plain.parameters()), make(private.parameters())]
    schedules = [] if schedule is None else [schedule(one) for one in made]
    for _ in range(steps):
        step(plain, made[0], X, **options)
        step(private, made[1], x, **options)
        for one in schedules:
            one.step()
    return distance(plain, decrypt(private))


OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "SGD of a tensor": lambda p: optim.SGD(p, lr=torch.tensor(0.1)),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.01, maximize=True),
    "Nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "Adam": lambda p: optim.Adam(p, lr=0.01, weight_decay=0.01),
    "Adam of a tensor": lambda p: optim.Adam(p, lr=torch.tensor(0.01)),
    "AdamW": lambda p: optim.AdamW(p, lr=0.01, weight_decay=0.1, maximize=True),
    "amsgrad": lambda p: optim.Adam(p, lr=0.01, amsgrad=True, betas=(0.8, 0.95), eps=1e-3),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.003, weight_decay=0.01),
    "centered": lambda p: optim.RMSprop(p, lr=0.003, centered=True, momentum=0.9),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.03, lr_decay=0.1, initial_accumulator_value=0.01),
    "Adadelta": lambda p: optim.Adadelta(p, lr=1.0),
    "Adamax": lambda p: optim.Adamax(p, lr=0.01, weight_decay=0.01),
    "NAdam": lambda p: optim.NAdam(p, lr=0.01, weight_decay=0.01, decoupled_weight_decay=True),
    "RAdam": lambda p: optim.RAdam(p, lr=0.01),
    "ASGD": lambda p: optim.ASGD(p, lr=0.05, t0=1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_on_shares(name, two):
    assert both(OPTIMIZERS[name], two, 7 if name == "RAdam" else 3) < 5e-4


@pytest.mark.parametrize("form", [(2, 16), (2, 24), (10, 5)])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_on_fixed_precision(name, form):
    form = {"base": form[0], "precision_fractional": form[1]}
    assert both(OPTIMIZERS[name], ((), None), 7, form=form) < 1e-3


@pytest.mark.parametrize("name", ["momentum", "Adam"])
def test_optimizers_on_shares_of_three(name, cast):
    form = {"base": 10, "precision_fractional": 5}
    assert both(OPTIMIZERS[name], cast, 2, form=form) < 1e-3


SCHEDULES = {
    "StepLR": lambda o: optim.lr_scheduler.StepLR(o, 1, 0.5),
    "OneCycleLR": lambda o: optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=5),
    "CosineAnnealingLR": lambda o: optim.lr_scheduler.CosineAnnealingLR(o, 5),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name, two):
    assert both(OPTIMIZERS["momentum"], two, 3, SCHEDULES[name]) < 5e-4


def test_gradients_may_be_kept_as_zeros(two):
    assert both(OPTIMIZERS["momentum"], two, set_to_none=False) < 5e-4


# --- forms ----------------------------------------------------------------------------------------------------------


def test_state_is_finer_than_parameters(two):
    model = encrypt(net(), two)
    optimizer = optim.Adam(model.parameters(), amsgrad=True)
    step(model, optimizer, encrypted(X, two))
    for parameter in model.parameters():
        state = optimizer.state[parameter]
        assert parameter.child.precision_fractional == 16
        assert state["exp_avg"].child.precision_fractional == 28
        assert state["exp_avg_sq"].child.precision_fractional == 38
        assert state["max_exp_avg_sq"].child.precision_fractional == 38
        assert state["step"].item() == 1
        assert state["exp_avg_sq"].child.is_shared


def test_small_gradients_take_steps_no_larger_than_they_should(two):
    """The square of a gradient of one unit is rounded to zero; the step must not be divided by nothing."""
    for size in (1, 3, 30, 300):
        model = encrypted(torch.zeros(1, 50), two).requires_grad_()
        optimizer = optim.Adam([model], lr=0.1)
        for number in range(3):
            model.grad = encrypted(torch.full((1, 50), size * 2.0**-16), two)
            optimizer.step()
            taken = -decrypted(model.detach().clone())
            assert taken.max() < 0.11 * (number + 1)
            assert taken.min() > (-1e-4 if size < 30 else 0.08 * (number + 1))


def test_large_gradients_have_room(two):
    for make in (optim.Adam, optim.AdamW, optim.RMSprop, optim.Adagrad, optim.Adamax, optim.RAdam, optim.Adadelta):
        exact, model = torch.zeros(3).requires_grad_(), encrypted(torch.zeros(3), two).requires_grad_()
        first, second = make([exact], lr=0.1), make([model], lr=0.1)
        for _ in range(2):
            exact.grad = torch.tensor([900.0, -900.0, 0.0])
            model.grad = encrypted(exact.grad, two)
            first.step()
            second.step()
        assert (decrypted(model.detach()) - exact.detach()).abs().max() <= 2e-3 * max(1.0, exact.abs().max().item())


# --- when it is made, and what becomes of it ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["momentum", "Adam", "Adagrad"])
def test_made_before_the_model_was_encrypted(name, two):
    plain, private = net(), net()
    made = [OPTIMIZERS[name](plain.parameters()), OPTIMIZERS[name](private.parameters())]
    encrypt(private, two)
    for _ in range(2):
        step(plain, made[0], X)
        step(private, made[1], encrypted(X, two))
    assert distance(plain, decrypt(private)) < 5e-4


@pytest.mark.parametrize("name", ["momentum", "Adam"])
def test_training_continues_after_decryption_and_encryption(name, two):
    plain, private = net(), net()
    made = [OPTIMIZERS[name](plain.parameters()), OPTIMIZERS[name](private.parameters())]
    stages = [X, encrypted(X, two), X, encrypted(X, ((), None))]
    for stage, x in enumerate(stages):
        if stage == 1:
            encrypt(private, two)
        if stage == 2:
            decrypt(private)
        if stage == 3:
            private.fix_precision(**FORM)
        for _ in range(2):
            step(plain, made[0], X)
            step(private, made[1], x)
        state = next(iter(made[1].state.values()))
        kept = next(value for value in state.values() if isinstance(value, torch.Tensor) and value.dim())
        link = kept.__dict__.get("child")
        assert (link is None) == (stage in (0, 2))
        assert link is None or link.is_shared == (stage == 1)
    assert distance(plain, private.float_precision()) < 1e-3


def test_state_can_follow_without_a_step(two):
    model = encrypt(net(), two)
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    step(model, optimizer, encrypted(X, two))
    decrypt(model)
    optimizer.follow_parameters()
    for state in optimizer.state_dict()["state"].values():
        assert all(type(value) is torch.Tensor for value in state.values())
        assert 0 < state["exp_avg"].abs().max() < 1


def test_a_closure(two):
    plain, private = net(), encrypt(net(), two)
    for model, x in ((plain, X), (private, encrypted(X, two))):
        optimizer = optim.Adam(model.parameters(), lr=0.01)

        def closure(model=model, x=x, optimizer=optimizer):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), Y)
            loss.backward()
            return loss

        for _ in range(2):
            optimizer.step(closure)
        optimizer.step(closure=closure)
    assert distance(plain, decrypt(private)) < 5e-4
    assert all(state["exp_avg_sq"].child.precision_fractional == 38 for state in optimizer.state.values())


def test_state_dict(two):
    plain, private = net(), encrypt(net(), two)
    x = encrypted(X, two)
    for model, data in ((plain, X), (private, x)):
        first = optim.Adam(model.parameters(), lr=0.01)
        step(model, first, data)
        second = optim.Adam(model.parameters(), lr=0.5)
        second.load_state_dict(first.state_dict())
        step(model, second, data)
    assert distance(plain, decrypt(private)) < 5e-4


def test_parameter_groups_and_frozen_parameters(two):
    plain, private = net(), encrypt(net(), two)
    for model, data in ((plain, X), (private, encrypted(X, two))):
        model[0].bias.requires_grad_(False)
        optimizer = optim.Adam(model[0].parameters(), lr=0.01)
        step(model, optimizer, data)
        assert model[0].bias.grad is None
        model[0].bias.requires_grad_(True)
        optimizer.add_param_group({"params": model[2].parameters(), "lr": 0.1})
        step(model, optimizer, data)
    assert distance(plain, decrypt(private)) < 5e-4


def test_a_model_of_public_and_private_layers(two):
    plain, mixed = net(), net()
    mixed[2].fix_precision(**FORM).share(*two[0], crypto_provider=two[1])
    for model in (plain, mixed):
        optimizer = optim.Adam(model[2].parameters(), lr=0.01)
        step(model, optimizer, X)
        step(model, optimizer, X)
    mixed[2].get().float_precision()
    assert distance(plain, mixed) < 5e-4


def test_a_public_model_on_private_data(two):
    """Its gradients are private: they are decrypted before a public model takes a step, or the step is refused."""
    plain, public = net(), net()
    for model, data in ((plain, X), (public, encrypted(X, two))):
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        F.mse_loss(model(data), Y).backward()
        if model is public:
            with pytest.raises(UnsupportedOperationError, match="public"):
                optimizer.step()
            for parameter in model.parameters():
                parameter.grad = decrypted(parameter.grad)
        optimizer.step()
    assert distance(plain, public) < 5e-4


def test_a_private_model_on_public_data(two):
    plain, private = net(), encrypt(net(), two)
    for model in (plain, private):
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        step(model, optimizer, X)
    assert distance(plain, decrypt(private)) < 5e-4


def test_copies_are_apart(two):
    model = encrypt(net(), two)
    copied = copy.deepcopy(model)
    step(copied, optim.SGD(copied.parameters(), lr=0.1), encrypted(X, two))
    assert distance(decrypt(model), net()) < 1e-4
    assert distance(decrypt(copied), net()) > 1e-2


def test_gradients_add_up(two):
    plain, private = net(), encrypt(net(), two)
    for model in (plain, private):
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        for half in (slice(0, 4), slice(4, 8)):
            data = X[half] if model is plain else encrypted(X[half], two)
            loss = F.mse_loss(model(data), Y[half]) / 2
            loss.backward(retain_graph=True)
            loss.backward()
        optimizer.step()
    assert distance(plain, decrypt(private)) < 5e-4


# --- refused --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [optim.LBFGS, optim.Rprop, optim.SparseAdam, optim.Adafactor])
def test_refused_before_the_first_step(make, two):
    model = encrypt(net(), two)
    optimizer = make(model.parameters(), lr=0.1)
    F.mse_loss(model(encrypted(X, two)), Y).backward()
    with pytest.raises(UnsupportedOperationError, match=f"torch.optim.{make.__name__} .*use"):
        optimizer.step(lambda: pytest.fail("nothing is computed"))
    assert not any(optimizer.state.values())


def test_every_optimizer_of_torch_is_supported_or_refused():
    known = {*optimizers.STATES, *optimizers.REFUSED}
    found = {one for one in vars(optim).values() if isinstance(one, type) and issubclass(one, optim.Optimizer)}
    assert {one for one in found - {optim.Optimizer} if not known & set(one.__mro__)} == set()


@pytest.mark.parametrize("option", ["foreach", "fused"])
def test_options_that_are_refused(option, two):
    model = encrypt(net(), two)
    optimizer = optim.Adam(model.parameters(), **{option: True})
    F.mse_loss(model(encrypted(X, two)), Y).backward()
    with pytest.raises(UnsupportedOperationError, match=f"Leave {option} out"):
        optimizer.step()


def test_unhook_removes_the_step_hook(hook):
    from torch.optim.optimizer import _global_optimizer_pre_hooks as installed

    assert optimizers.prepare in installed.values()
    hook.unhook()
    try:
        assert optimizers.prepare not in installed.values()
    finally:
        sy.TorchHook(torch)


def test_a_plain_optimizer_is_unchanged():
    model = net()
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    step(model, optimizer, X)
    assert optimizer not in optimizers._encrypted
    assert type(optimizer.state[model[0].weight]["exp_avg"]) is torch.Tensor


# --- clipping -------------------------------------------------------------------------------------------------------

CLIPS = {
    "norm": lambda p: nn.utils.clip_grad_norm_(p, 0.1),
    "norm of any size": lambda p: nn.utils.clip_grad_norm_(p, 100.0),
    "sum": lambda p: nn.utils.clip_grad_norm_(p, 0.1, norm_type=1),
    "largest": lambda p: nn.utils.clip_grad_norm_(p, 0.1, norm_type=float("inf"), error_if_nonfinite=True),
    "value": lambda p: nn.utils.clip_grad_value_(p, 0.02),
    "total": lambda p: nn.utils.get_total_norm([one.grad for one in p]),
}


@pytest.mark.parametrize("name", CLIPS)
def test_clipping(name, two):
    plain, private = net(), encrypt(net(), two)
    F.mse_loss(plain(X), Y).backward()
    F.mse_loss(private(encrypted(X, two)), Y).backward()
    meant, found = CLIPS[name](plain.parameters()), CLIPS[name](private.parameters())
    if meant is not None:
        assert found.child.is_shared
        assert abs(decrypted(found) - meant) < 1e-3
    for mine, other in zip(private.parameters(), plain.parameters(), strict=True):
        assert (decrypted(mine.grad) - other.grad).abs().max() < 1e-4
