"""Part 12: an encrypted network is trained on encrypted data, step by step as the same network in clear."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn, optim

DATA = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1.0]])
TARGET = torch.tensor([[0], [0], [1], [1.0]])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, 2)
        self.fc2 = nn.Linear(2, 1)

    def forward(self, x):
        x = self.fc1(x)
        x = F.relu(x)
        return self.fc2(x)


def train_in_clear(model, steps):
    opt = optim.SGD(params=model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        opt.zero_grad()
        loss = ((model(DATA) - TARGET) ** 2).sum()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


DECIMALS: dict = {}
BITS = {"base": 2, "precision_fractional": 16}


@pytest.mark.parametrize(
    ("kind", "count", "form", "seed"),
    [
        ("inline", 2, DECIMALS, 0),
        ("inline", 2, DECIMALS, 3),
        ("inline", 2, BITS, 3),
        ("inline", 3, DECIMALS, 3),
        ("inline", 3, BITS, 0),
        ("bytes", 2, DECIMALS, 3),
        ("thread", 3, DECIMALS, 3),
    ],
)
def test_encrypted_training(make_worker, kind, count, form, seed, nothing_left):
    parties = [make_worker(name, kind) for name in ("bob", "alice", "charlie")[:count]]
    crypto_provider = make_worker("crypto_provider", kind)
    torch.manual_seed(seed)
    model = Net()
    proxy = copy.deepcopy(model)
    clear = train_in_clear(proxy, 20)

    data = DATA.fix_precision(**form).share(*parties, crypto_provider=crypto_provider, requires_grad=True)
    target = TARGET.fix_precision(**form).share(*parties, crypto_provider=crypto_provider, requires_grad=True)
    model = model.fix_precision(**form).share(*parties, crypto_provider=crypto_provider, requires_grad=True)
    opt = optim.SGD(params=model.parameters(), lr=0.1).fix_precision()
    losses = []
    for _ in range(20):
        opt.zero_grad()
        pred = model(data)
        loss = ((pred - target) ** 2).sum()
        loss.backward()
        opt.step()
        losses.append(loss.get().float_precision().item())
    bound = 0.05 if form is DECIMALS else 0.002
    assert max(abs(mine - theirs) for mine, theirs in zip(losses, clear, strict=True)) < bound
    assert losses[-1] < losses[0]

    opt.zero_grad()
    model.get().float_precision()
    for mine, theirs in zip(model.parameters(), proxy.parameters(), strict=True):
        assert torch.allclose(mine, theirs, atol=bound)
    del data, target, pred, loss, opt
    for worker in (*parties, crypto_provider):
        worker.synchronize()
    nothing_left(*parties, crypto_provider)
