"""Plans of several kinds, for the tests of how plans look and how they are translated."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import syft as sy


class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(6, 8)
        self.fc2 = torch.nn.Linear(8, 3)

    def forward(self, x):
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


class CNN(torch.nn.Module):
    """Convolutions with a residual connection and a norm."""

    def __init__(self):
        super().__init__()
        self.c1 = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.bn = torch.nn.BatchNorm2d(8)
        self.c2 = torch.nn.Conv2d(8, 8, 3, padding=1)
        self.fc = torch.nn.Linear(8 * 4 * 4, 10)

    def forward(self, x):
        h = F.relu(self.bn(self.c1(x)))
        h = F.max_pool2d(h + F.relu(self.c2(h)), 2)
        return self.fc(h.view(h.shape[0], -1))


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 5, batch_first=True)
        self.out = torch.nn.Linear(5, 2)

    def forward(self, x):
        y, (h, _) = self.lstm(x)
        return self.out(y[:, -1]), h


def built(module, *shape, name="model"):
    torch.manual_seed(0)
    return sy.Plan(name=name, forward_func=module().eval()).build(torch.randn(*shape))


def encoder():
    return torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)


def training_plan():
    model = MLP()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    class Training(sy.Plan):
        def __init__(self):
            super().__init__(name="training")
            self.model = model

        def forward(self, x, y):
            optimizer.zero_grad()
            loss = F.nll_loss(self.model(x), y)
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                accuracy = (self.model(x).argmax(1) == y).float().mean()
            return loss, accuracy

    return Training().build(torch.randn(4, 6), torch.zeros(4, dtype=torch.long))
