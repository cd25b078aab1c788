"""Federated learning with TrainConfig: a model and a loss are sent to a worker in another process, which trains."""

import warnings

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

import syft as sy


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, 20)
        self.fc2 = nn.Linear(20, 10)
        self.fc3 = nn.Linear(10, 1)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def loss_fn(target, pred):
    return ((target.view(pred.shape).float() - pred.float()) ** 2).mean()


DATA = torch.tensor([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
TARGET = torch.tensor([1.0, 1.0, 1.0, 0.0])


def as_script(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.trace(model, DATA), torch.jit.script(loss_fn)


def as_plans(model):
    return sy.Plan(forward_func=model).build(DATA), sy.Plan(name="loss", forward_func=loss_fn).build(
        TARGET, DATA[:, :1]
    )


@pytest.mark.parametrize("form", [as_script, as_plans])
def test_fit_at_a_worker(owners, form, nothing_left):
    alice = owners[0]
    model, loss = form(Net())
    with torch.no_grad():
        before = float(loss(TARGET, model(DATA)))
    optimizer_args = {"lr": 0.1, "weight_decay": 0.001}
    train_config = sy.TrainConfig(
        model=model,
        loss_fn=loss,
        batch_size=4,
        shuffle=True,
        optimizer="SGD",
        optimizer_args=optimizer_args,
        epochs=10,
    )
    train_config.send(alice)
    for _ in range(10):
        last = alice.fit(dataset_key="xor")
    found = alice.evaluate(dataset_key="xor", return_histograms=True, nr_bins=2)
    new_model = train_config.model_ptr.get()
    with torch.no_grad():
        after = float(loss(TARGET, new_model(DATA)))
    assert after < 0.05 < before and after == pytest.approx(found["loss"], rel=1e-4)
    assert float(last) < 0.1 and found["nr_correct_predictions"] == 4
    assert found["histogram_target"].tolist() == [1, 3]
    del train_config, new_model
    nothing_left(alice)


def test_missing_parts_are_named(owners):
    bob = owners[1]
    with pytest.raises(ValueError, match="has no TrainConfig of yours"):
        bob.fit("xor")
    train_config = sy.TrainConfig(*as_plans(Net()))
    train_config.send(bob)
    with pytest.raises(ValueError, match="has no data set 'and'; it has: 'xor', 'digits'"):
        bob.fit("and")
