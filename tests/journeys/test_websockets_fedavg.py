"""Federated averaging over three servers: each trains a copy of the model on its own batches, the mean goes on."""

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import TensorDataset

import syft as sy
from syft.frameworks.torch.fl import utils

EPOCHS, BATCHES_A_ROUND = 6, 8


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


def next_batches(loader, count):
    batches = {loader.federated_dataset.datasets[worker].location: [] for worker in loader.workers}
    try:
        for _ in range(count):
            for worker, batch in next(loader).items():
                batches[worker].append(batch)
    except StopIteration:
        pass
    return batches


def train_on_batches(worker, batches, model):
    model.train()
    optimizer = optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    model.send(worker)
    for data, target in batches:
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
    model.get()
    return model, float(loss.get())


def test_fedavg_over_three_servers(hook, owners, digits):
    data, target, test_data, test_target = digits
    federated = TensorDataset(data, target).federate(tuple(owners))
    assert federated.workers == [worker.id for worker in owners] and len(federated) == len(data)
    loader = sy.FederatedDataLoader(federated, batch_size=64, shuffle=True, iter_per_worker=True)
    torch.manual_seed(1)
    model = Net()
    for _ in range(EPOCHS):
        iter(loader)
        while any((batches := next_batches(loader, BATCHES_A_ROUND)).values()):
            models = {}
            for worker, there in batches.items():
                assert all(part.location is worker for batch in there for part in batch)
                models[worker], _ = train_on_batches(worker, there, model.copy())
            model = utils.federated_avg(models)
    with torch.no_grad():
        accuracy = utils.accuracy(model(test_data), test_target)
    assert accuracy >= 0.80, accuracy
    for worker in owners:
        assert worker.objects_count_remote() >= 2
        worker.clear_objects_remote()
        assert worker.objects_count_remote() == 0
