"""Asynchronous federated learning: in every round all servers train at once, each for a while, on data of its own."""

import asyncio
import warnings

import torch
import torch.nn.functional as F
from torch import nn

import syft as sy
from syft.frameworks.torch.fl import utils

ROUNDS, BATCHES = 3, 40


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.fc1 = nn.Linear(72, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(x, 2, 2)
        x = x.view(-1, 72)
        x = F.relu(self.fc1(x))
        return F.log_softmax(self.fc2(x), dim=1)


def loss_fn(pred, target):
    return F.nll_loss(input=pred, target=target)


def compiled(digits):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.trace(Net(), digits[0][:2]), torch.jit.script(loss_fn)


async def fit_model_on_worker(worker, traced_model, loss, key, lr):
    train_config = sy.TrainConfig(
        model=traced_model,
        loss_fn=loss,
        batch_size=32,
        shuffle=True,
        max_nr_batches=BATCHES,
        epochs=3,
        optimizer="SGD",
        optimizer_args={"lr": lr, "momentum": 0.9},
    )
    train_config.send(worker)
    trained_on = await worker.async_fit(dataset_key=key, return_ids=[0])
    model = train_config.model_ptr.get().obj
    return worker.id, model, float(trained_on)


def evaluate_model_on_worker(worker, model, loss):
    model.eval()
    train_config = sy.TrainConfig(batch_size=128, model=model, loss_fn=loss, optimizer_args=None, epochs=1)
    train_config.send(worker)
    return worker.evaluate(
        dataset_key="digits_testing", return_histograms=True, nr_bins=10, return_loss=True, return_raw_accuracy=True
    )


async def all_at_once(owners, model, loss, key, lr):
    return await asyncio.gather(*(fit_model_on_worker(worker, model, loss, key, lr) for worker in owners))


def test_every_round_all_servers_fit_at_once(owners, digits):
    torch.manual_seed(1)
    model, loss = compiled(digits)
    untrained = F.nll_loss(model(digits[2]), digits[3]).item()
    told = []  # the losses of last batches: one may be bad, but not most
    for curr_round in range(ROUNDS):
        results = asyncio.run(all_at_once(owners, model, loss, "digits", lr=0.15 * 0.9**curr_round))
        models = {worker_id: trained for worker_id, trained, _ in results}
        assert list(models) == [worker.id for worker in owners]
        told += [found for _, _, found in results]
        model = utils.federated_avg(models)
    assert min(told) > 0 and sum(told) / len(told) < 0.7 * untrained
    found = evaluate_model_on_worker(owners[0], model, loss)
    count = len(digits[3])
    assert found["nr_predictions"] == count == found["histogram_predictions"].sum()
    assert found["histogram_target"].tolist() == digits[3].bincount(minlength=10).tolist()
    accuracy = found["nr_correct_predictions"] / count
    assert accuracy >= 0.80 and found["loss"] < untrained / 2, (accuracy, found["loss"], untrained)
    with torch.no_grad():
        assert abs(found["loss"] - float(F.nll_loss(model(digits[2]), digits[3]))) < 1e-4


def test_they_really_train_at_the_same_time(owners, digits):
    """No server gets past its first sample before all of them were asked for theirs."""
    model, loss = compiled(digits)
    results = asyncio.run(all_at_once(owners, model, loss, "meeting", lr=0.1))
    assert len(results) == len(owners)
