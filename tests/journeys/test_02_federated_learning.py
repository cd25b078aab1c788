"""Part 02: train one model alternating between two data owners; the optimizer is made before anything is sent."""

import pytest
import torch
from torch import nn, optim


def toy(bob, alice):
    data = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1.0]], requires_grad=True)
    target = torch.tensor([[0], [0], [1], [1.0]], requires_grad=True)
    return [
        (data[:2].detach().send(bob), target[:2].detach().send(bob)),
        (data[2:].detach().send(alice), target[2:].detach().send(alice)),
    ]


MAKERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.5),
    "Adam": lambda p: optim.Adam(p, lr=0.1),
}


@pytest.mark.parametrize("maker", list(MAKERS))
def test_two_owners(workers, nothing_left, maker):
    bob, alice = workers
    torch.manual_seed(0)
    datasets = toy(bob, alice)
    model = nn.Linear(2, 1)
    opt = MAKERS[maker](model.parameters())
    losses = []
    for _ in range(40):
        for data, target in datasets:
            model.send(data.location)
            assert model.location is data.location
            opt.zero_grad()
            loss = ((model(data) - target) ** 2).sum()
            loss.backward()
            opt.step()
            model.get()
            losses.append(loss.get().item())
    assert losses[-1] < 0.1
    assert losses[-1] < losses[0] / 10
    assert isinstance(model.weight, nn.Parameter) and model.location is None
    del data, target, datasets, loss, opt
    nothing_left(bob, alice)


def test_same_numbers_as_local(workers):
    """Federated training is the same arithmetic as local training on the same order of batches."""
    bob, alice = workers
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
    proxy = model.copy()
    batches = [(torch.randn(5, 2), torch.randn(5, 1)) for _ in range(2)]
    for m, where in ((model, (bob, alice)), (proxy, (None, None))):
        opt = optim.SGD(m.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)
        for _ in range(3):
            for (data, target), place in zip(batches, where, strict=True):
                if place is not None:
                    m.send(place)
                    data, target = data.send(place), target.send(place)
                opt.zero_grad()
                nn.functional.mse_loss(m(data), target).backward()
                opt.step()
                if place is not None:
                    m.get()
    for a, b in zip(model.parameters(), proxy.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-6)
