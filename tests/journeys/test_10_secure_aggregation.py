"""Part 10: models trained where the data is; parameters shared by their holders, and averaged under encryption."""

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_diabetes
from torch import nn, optim


def make_data():
    data, target = load_diabetes(return_X_y=True)
    data = torch.tensor(data, dtype=torch.float32)
    target = torch.tensor(target, dtype=torch.float32).view(-1, 1)
    data = (data - data.mean(0)) / data.std(0)
    return data, (target - 150) / 77


def make_model():
    return nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))


def mean_squared_error(model, data, target):
    with torch.no_grad():
        return F.mse_loss(model(data), target).item()


@pytest.mark.parametrize("base", [10, 2])
def test_secure_aggregation(make_worker, kind, base, nothing_left):
    bob, alice, james = (make_worker(name, kind) for name in ("bob", "alice", "james"))
    torch.manual_seed(1)
    data, target = make_data()
    form = {"base": base, "precision_fractional": 3 if base == 10 else 16}
    remote = [
        [(x.send(worker), y.send(worker)) for x, y in zip(data[half].split(32), target[half].split(32), strict=True)]
        for worker, half in ((bob, slice(0, 192)), (alice, slice(192, 384)))
    ]
    model = make_model()
    before = mean_squared_error(model, data[384:], target[384:])
    for _epoch in range(3):
        models = [model.copy().send(worker) for worker in (bob, alice)]
        for one, batches in zip(models, remote, strict=True):
            opt = optim.SGD(one.parameters(), lr=0.05)
            for x, y in batches:
                opt.zero_grad()
                loss = F.mse_loss(one(x), y)
                loss.backward()
                opt.step()
        new_parameters = []
        for mine, theirs in zip(*(one.parameters() for one in models), strict=True):
            shared = [
                parameter.copy().fix_precision(**form).share(bob, alice, crypto_provider=james).get()
                for parameter in (mine, theirs)
            ]
            new_parameters.append((shared[0] + shared[1]).get().float_precision() / 2)
        for one in models:
            one.get()
        with torch.no_grad():
            for parameter, new, mine, theirs in zip(
                model.parameters(), new_parameters, *(one.parameters() for one in models), strict=True
            ):
                assert torch.allclose(new, (mine + theirs) / 2, atol=2e-3)
                parameter *= 0
                parameter.set_(new)
    after = mean_squared_error(model, data[384:], target[384:])
    assert after < 0.5 * before
    del remote, batches, models, one, opt, x, y, loss, shared, mine, theirs
    for worker in (bob, alice):
        worker.synchronize()
    nothing_left(bob, alice, james)
