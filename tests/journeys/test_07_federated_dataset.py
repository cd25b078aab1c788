"""Part 07: a data set made of what a search found, with an Adam for each owner."""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_diabetes
from torch import nn, optim

import syft as sy


class Net(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.fc1 = nn.Linear(features, 32)
        self.fc2 = nn.Linear(32, 24)
        self.fc3 = nn.Linear(24, 1)

    def forward(self, x):
        x = x.view(-1, self.fc1.in_features)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def publish(workers):
    """The owners of the data put it where it can be found."""
    found = load_diabetes()
    data = torch.tensor(found.data, dtype=torch.float32)
    data = (data - data.mean(0)) / data.std(0)
    target = torch.tensor(found.target, dtype=torch.float32).view(-1, 1) / 100
    for worker, part, wanted in zip(workers, data.split(221), target.split(221), strict=True):
        part.tag("#diabetes", "#data").describe("ten measures of each patient").send(worker)
        wanted.tag("#diabetes", "#target").describe("how far the disease went").send(worker)


def test_federated_dataset_of_search_results(make_worker):
    workers = make_worker("bob"), make_worker("alice", "thread")
    publish(workers)
    grid = sy.PrivateGridNetwork(*workers)
    data, target = grid.search("#diabetes", "#data"), grid.search("#diabetes", "#target")
    bob, alice = workers
    features = data[alice.id][0].shape[1]
    assert features == 10
    datasets = [sy.BaseDataset(data[worker][0], target[worker][0]) for worker in data]
    dataset = sy.FederatedDataset(datasets)
    assert dataset.workers == [bob.id, alice.id] and len(dataset) == 442
    model = Net(features)
    optimizers = {worker: optim.Adam(model.parameters(), lr=0.01) for worker in dataset.workers}
    train_loader = sy.FederatedDataLoader(dataset, batch_size=32, shuffle=False, drop_last=False)
    totals = []
    for _ in range(12):
        total = 0.0
        for x, y in train_loader:
            optimizer = optimizers[x.location.id]
            model.send(x.location)
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            model.get()
            total += float(loss.get())
        totals.append(total)
    assert totals[0] > 15 and totals[-1] < 6
