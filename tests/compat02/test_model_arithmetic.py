"""add_model and scale_model give parameters new values and leave tensors that shared memory alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from syft.federated.utils import add_model, scale_model


def linear(value):
    model = nn.Linear(2, 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(value)
    return model


CHANGES = {
    "scale": (lambda model: scale_model(model, 0.5), [1.0, 1.0]),
    "add": (lambda model: add_model(model, linear(3.0)), [5.0, 5.0]),
    "add itself": (lambda model: add_model(model, model), [4.0, 4.0]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_f5_noted_weights_keep_their_numbers(change):
    run, expected = CHANGES[change]
    model = linear(2.0)
    weight, before, row = model.weight, model.weight.data, model.weight.detach()[0]
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    assert run(model) is model and model.weight is weight
    assert before.tolist() == [[2, 2]] and row.tolist() == [2, 2]
    assert model.weight.data.tolist() == [expected] and not torch.equal(before, model.weight.data)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert model.weight.data.tolist() == [[value - 1 for value in expected]]


def test_f5_old_predictions_do_not_use_new_values():
    model = linear(2.0)
    x = torch.ones(1, 2, requires_grad=True)
    out = model(x)
    scale_model(model, 0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_f5_remote_models(workers):
    bob, _ = workers
    model, other = linear(2.0).send(bob), linear(3.0).send(bob)
    before = model.weight.data
    add_model(scale_model(model, 0.5), other)
    assert before.get().tolist() == [[2, 2]]
    assert model.get().weight.tolist() == [[4, 4]]


def test_f5_encrypted_models(make_worker):
    alice, bob, carol = (make_worker(name) for name in ("alice", "bob", "carol"))
    model = linear(2.0).fix_precision().share(alice, bob, crypto_provider=carol)
    scale_model(model, 2)
    add_model(model, linear(3.0).fix_precision().share(alice, bob, crypto_provider=carol))
    assert model.get().float_precision().weight.tolist() == [[7, 7]]
