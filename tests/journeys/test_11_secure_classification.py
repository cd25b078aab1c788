"""Part 11: a model trained in clear classifies encrypted digits; the model is encrypted too."""

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn, optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = x.view(-1, 64)
        x = self.fc1(x)
        x = F.relu(x)
        return self.fc2(x)


def make_data():
    digits = load_digits()
    data, target = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    return data[:1500], target[:1500], data[1500:1700], target[1500:1700]


def train(model, data, target):
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    model.train()
    for _epoch in range(6):
        for x, y in zip(data.split(64), target.split(64), strict=True):
            optimizer.zero_grad()
            F.nll_loss(F.log_softmax(model(x), dim=1), y).backward()
            optimizer.step()
    return model.eval()


DECIMALS: dict = {}
BITS = {"base": 2, "precision_fractional": 16}


@pytest.mark.parametrize(
    ("kind", "count", "form"),
    [
        ("inline", 2, DECIMALS),
        ("inline", 2, BITS),
        ("inline", 3, DECIMALS),
        ("inline", 3, BITS),
        ("bytes", 2, BITS),
        ("thread", 3, DECIMALS),
    ],
)
def test_secure_classification(make_worker, kind, count, form, nothing_left):
    parties = [make_worker(name, kind) for name in ("alice", "bob", "charlie")[:count]]
    crypto_provider = make_worker("crypto_provider", kind)
    train_data, train_target, test_data, test_target = make_data()
    model = train(Net(), train_data, train_target)
    with torch.no_grad():
        scores = model(test_data)
    # Digits that the model is undecided about, up to what the format can tell apart, are nobody's mistake.
    two_best = scores.topk(2, dim=1).values
    clear = (two_best[:, 0] - two_best[:, 1] > 0.02).nonzero().flatten()[:50]
    test_data, test_target, plain = test_data[clear], test_target[clear], scores.argmax(dim=1)[clear]

    model.fix_precision(**form).share(*parties, crypto_provider=crypto_provider)
    data = test_data.fix_precision(**form).share(*parties, crypto_provider=crypto_provider)
    target = test_target.fix_precision(**form).share(*parties, crypto_provider=crypto_provider)
    with torch.no_grad():
        output = model(data)
        pred = output.argmax(dim=1)
        correct = pred.eq(target.view_as(pred)).sum()
    score = correct.copy().get().float_precision().long().item()
    assert score == correct.get().float_precision().long().item()
    found = pred.get().float_precision().long()
    assert len(found) == 50
    assert torch.equal(found, plain)
    assert score == (plain == test_target).sum().item() >= 45
    model.get().float_precision()
    assert torch.equal(model(test_data).argmax(dim=1), plain)
    del data, target, output, pred, correct
    for worker in (*parties, crypto_provider):
        worker.synchronize()
    nothing_left(*parties, crypto_provider)


@pytest.mark.parametrize("kind", ["inline", "thread"])
def test_the_tutorials_loop(make_worker, kind, nothing_left):
    """Batches and labels come from a private loader, and the score is summed up under encryption."""
    workers = [make_worker(name, kind) for name in ("alice", "bob")]
    crypto_provider = make_worker("crypto_provider", kind)
    train_data, train_target, test_data, test_target = make_data()
    model = train(Net(), train_data, train_target)
    with torch.no_grad():
        expected = model(test_data).argmax(dim=1).eq(test_target).sum().item()
    private_test_loader = [
        (
            data.fix_precision(**BITS).share(*workers, crypto_provider=crypto_provider),
            target.fix_precision(**BITS).share(*workers, crypto_provider=crypto_provider),
        )
        for data, target in zip(test_data.split(50), test_target.split(50), strict=True)
    ]
    model.fix_precision(**BITS).share(*workers, crypto_provider=crypto_provider)
    n_correct_priv = 0
    with torch.no_grad():
        for data, target in private_test_loader:
            pred = model(data).argmax(dim=1)
            n_correct_priv += pred.eq(target.view_as(pred)).sum()
    assert n_correct_priv.copy().get().float_precision().long().item() == expected
    del private_test_loader, data, target, pred, n_correct_priv, model
    for worker in (*workers, crypto_provider):
        worker.synchronize()
    nothing_left(*workers, crypto_provider)
