"""Models change in place while earlier predictions are alive, as `Out[n]` of a notebook keeps them."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn

import syft as sy
from syft.exceptions import SyftError


@pytest.fixture
def parties(make_worker):
    return [make_worker(name) for name in ("alice", "bob", "carol")]


def share(model, parties):
    return model.fix_precision().share(*parties[:2], crypto_provider=parties[2])


CHANGES = {
    "send": (lambda model, parties: model.send(parties[0]), lambda model: model.get()),
    "fix_precision": (lambda model, _: model.fix_precision(), lambda model: model.float_precision()),
    "share": (share, lambda model: model.get().float_precision()),
}


def make():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 4), nn.Linear(4, 1))


@pytest.mark.parametrize("change", CHANGES)
def test_t3_models_change_while_predictions_are_alive(parties, change):
    there, back = CHANGES[change]
    model, x = make(), torch.randn(5, 3, requires_grad=True)
    parameters, optimizer = list(model.parameters()), torch.optim.SGD(model.parameters(), lr=0.1)
    (expected,) = torch.autograd.grad(model(x).sum(), x)
    out = {1: model(x), 2: model(x), 3: model[0].weight.T}
    values = {key: value.detach().clone() for key, value in out.items()}
    there(model, parties)
    assert all(old is new for old, new in zip(parameters, model.parameters(), strict=True))
    assert all(isinstance(parameter, sy.hook.syft_tensor.SyftTensor) for parameter in parameters)
    assert all(torch.equal(out[key], value) for key, value in values.items())
    assert torch.equal(torch.autograd.grad(out[1].sum(), x)[0], expected), "the graph keeps the old values"
    back(model)
    assert all(type(parameter) is nn.Parameter for parameter in parameters)
    model(x).sum().backward()
    before = parameters[-1].detach().clone()
    optimizer.step()
    assert not torch.equal(before, parameters[-1])


@pytest.mark.parametrize("change", CHANGES)
def test_t3_backward_of_an_old_prediction_raises(parties, change):
    there, back = CHANGES[change]
    model, x = make(), torch.randn(5, 3)
    old = model(x)
    there(model, parties)
    with pytest.raises(SyftError, match="again"):
        old.sum().backward(retain_graph=True)
    back(model)
    with pytest.raises(SyftError, match="again"):
        old.sum().backward()
    model(x).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_t3_encrypted_predictions_stay_alive_while_the_model_is_fetched(parties):
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    expected = [parameter.detach().clone() for parameter in model.parameters()]
    share(model, parties).requires_grad_()
    x = torch.randn(4, 2).fix_precision().share(*parties[:2], crypto_provider=parties[2])
    out = model(x)
    model.get().float_precision()
    for parameter, value in zip(model.parameters(), expected, strict=True):
        assert torch.allclose(parameter, value, atol=1e-3)
    with pytest.raises(SyftError, match="again"):
        out.sum().backward()


def test_t3_remote_predictions_stay_alive_while_the_model_moves(parties):
    alice, bob, _ = parties
    model = nn.Linear(2, 1).send(alice)
    out = model(torch.ones(1, 2).send(alice))
    value = out.copy().get()
    model.move(bob)
    assert model.location is bob
    model.get()
    assert torch.equal(out.get(), value) and torch.equal(model(torch.ones(1, 2)), value)


def test_t3_recurrent_layers_and_tied_weights(parties):
    model = nn.ModuleDict({"rnn": nn.LSTM(2, 3), "out": nn.Linear(3, 3), "tied": nn.Linear(3, 3)})
    model["tied"].weight = model["out"].weight
    x = torch.randn(4, 1, 2)
    first = model["tied"](model["out"](model["rnn"](x)[0]))
    model.send(parties[0])
    assert model["tied"].weight is model["out"].weight
    model.get()
    assert torch.equal(model["tied"](model["out"](model["rnn"](x)[0])), first)


def test_t3_tensors_sent_in_place_leave_the_graph_its_values(parties):
    alice = parties[0]
    w, x = torch.tensor([2.0], requires_grad=True), torch.tensor([3.0])
    first, second = w * x, x.exp() * w
    x.send_(alice)
    (first + second).backward()
    assert torch.equal(w.grad, 3.0 + torch.tensor([3.0]).exp())
    later = w * 5 + w * 7
    w.send_(alice)
    with pytest.raises(SyftError, match="again"):
        later.backward()


def test_t3_old_values_are_freed_with_the_prediction(parties):
    model = nn.Linear(2, 2)
    out = model(torch.ones(1, 2))
    model.send(parties[0])
    gc.collect()
    assert len(parties[0]._objects) == 2
    del out, model
    gc.collect()
    assert not parties[0]._objects


@pytest.mark.parametrize("follow", [False, True])
def test_t3_a_shared_model_is_sent_and_fetched_with_its_shares(parties, make_worker, follow):
    *holders, provider = parties
    keeper = make_worker("keeper")
    model = nn.Linear(2, 1)
    before = model.weight.detach().clone()
    model.fix_prec().share(*holders, crypto_provider=provider, requires_grad=follow)
    model.send(keeper)
    gc.collect()
    x = torch.ones(1, 2).fix_prec().share(*holders, crypto_provider=provider).send(keeper)
    assert model(x).get().get().float_prec().shape == (1, 1)
    model.get().get().float_prec()
    assert torch.allclose(model.weight.detach(), before, atol=1e-3)
