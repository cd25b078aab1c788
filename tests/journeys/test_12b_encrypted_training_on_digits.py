"""Part 12 bis: encrypted training on encrypted pictures, with three decimals, as the same training in clear."""

import copy
import gc
import itertools

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn, optim

BATCH, STEPS = 32, 5


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 16)
        self.fc2 = nn.Linear(16, 10)

    def forward(self, x):
        x = x.view(-1, 64)
        x = F.relu(self.fc1(x))
        return self.fc2(x)


def batches():
    digits = load_digits()
    data, target = torch.tensor(digits.images, dtype=torch.float32) / 16, torch.tensor(digits.target)
    return list(zip(data.split(BATCH), target.split(BATCH), strict=True))


def train_in_clear(model, loader):
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for data, target in loader:
        optimizer.zero_grad()
        loss = ((model(data) - F.one_hot(target, 10).float()) ** 2).sum() / BATCH
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(("kind", "count"), [("inline", 2), ("inline", 3), ("bytes", 2), ("thread", 3)])
def test_encrypted_training_on_digits(make_worker, kind, count, nothing_left):
    workers = [make_worker(name, kind) for name in ("alice", "bob", "charlie")[:count]]
    crypto_provider = make_worker("crypto_provider", kind)
    loader = batches()
    model = Net()
    proxy = copy.deepcopy(model)
    clear = train_in_clear(proxy, loader[:STEPS])

    def secret_share(tensor):
        return tensor.fix_precision(precision_fractional=3).share(
            *workers, crypto_provider=crypto_provider, requires_grad=True
        )

    private_train_loader = [
        (secret_share(data), secret_share(F.one_hot(target, 10).float())) for data, target in loader[:STEPS]
    ]
    private_test_loader = [
        (
            secret_share(data),
            target.fix_precision(precision_fractional=3).share(*workers, crypto_provider=crypto_provider),
        )
        for data, target in loader[STEPS : STEPS + 2]
    ]
    model = model.fix_precision(precision_fractional=3).share(
        *workers, crypto_provider=crypto_provider, requires_grad=True
    )
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    optimizer = optimizer.fix_precision()
    losses = []
    model.train()
    for data, target in private_train_loader:
        optimizer.zero_grad()
        output = model(data)
        loss = ((output - target) ** 2).sum().refresh() / BATCH
        loss.backward()
        optimizer.step()
        losses.append(loss.get().float_precision().item())
    assert max(abs(mine - theirs) for mine, theirs in zip(losses, clear, strict=True)) < 0.05
    assert all(later < earlier for earlier, later in itertools.pairwise(losses))

    model.eval()
    correct, found = 0, []
    with torch.no_grad():
        for data, target in private_test_loader:
            pred = model(data).argmax(dim=1)
            correct += pred.eq(target.view_as(pred)).sum()
            found.append(pred.copy().get().float_precision().long())
    score = correct.get().float_precision().long().item()
    labels = torch.cat([target for _, target in loader[STEPS : STEPS + 2]])
    assert score == torch.cat(found).eq(labels).sum().item()

    # It learns the same as without encryption.
    optimizer.zero_grad()
    model.get().float_precision()
    for mine, theirs in zip(model.parameters(), proxy.parameters(), strict=True):
        assert torch.allclose(mine, theirs, atol=0.01)
    del private_train_loader, private_test_loader, data, target, output, loss, pred, correct, optimizer, model
    gc.collect()
    for worker in (*workers, crypto_provider):
        worker.synchronize()
    nothing_left(*workers, crypto_provider)
