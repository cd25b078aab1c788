"""Part 06: a CNN learns digits from batches that stay with their two owners."""

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

import syft as sy


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


def train(model, federated_train_loader, optimizer):
    model.train()
    for data, target in federated_train_loader:
        model.send(data.location)
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        model.get()
    return loss.get().item()


def test(model, test_loader):
    model.eval()
    with torch.no_grad():
        right = sum(int((model(data).argmax(1) == target).sum()) for data, target in test_loader)
    return right / len(test_loader.dataset)


test.__test__ = False


def test_cnn_on_digits(make_worker, digits, nothing_left):
    bob, alice = make_worker("bob", "thread"), make_worker("alice")
    mixed = torch.randperm(len(digits[0]) + len(digits[2]))
    data, target = torch.cat(digits[::2])[mixed], torch.cat(digits[1::2])[mixed]
    federated_train_loader = sy.FederatedDataLoader(
        TensorDataset(data[:1500], target[:1500]).federate((bob, alice)), batch_size=64, shuffle=True
    )
    test_loader = DataLoader(TensorDataset(data[1500:], target[1500:]), batch_size=100, shuffle=True)
    assert len(federated_train_loader) == 24
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(6):
        train(model, federated_train_loader, optimizer)
    accuracy = test(model, test_loader)
    assert accuracy >= 0.93
    del federated_train_loader, optimizer
    nothing_left(bob, alice)
