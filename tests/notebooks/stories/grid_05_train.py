"""Grid, federated learning part 2: a data scientist finds the data, and trains where it is."""

# %%
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

import syft as sy
from syft.workers.node_client import NodeClient

hook = sy.TorchHook(torch)
nodes = [
    NodeClient(hook, url, token=token)
    for url, token in zip(os.environ["NODE_URLS"].split(), os.environ["SCIENTIST_TOKENS"].split(), strict=True)
]
my_grid = sy.PrivateGridNetwork(*nodes)
data, target = my_grid.search("#X", "#mnist", "#dataset"), my_grid.search("#Y", "#mnist", "#dataset")
data

# %%
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
losses = []
for _ in range(4):
    for worker in my_grid.workers:
        x, y = data[worker.id][0], target[worker.id][0]
        model.send(worker)
        for start in range(0, x.shape[0], 100):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[start : start + 100]), y[start : start + 100])
            loss.backward()
            optimizer.step()
        model.get()
        losses.append(loss.get().item())
losses

# %%
digits = load_digits()
images, labels = torch.tensor(digits.data[600:]).float() / 16, torch.tensor(digits.target[600:])
accuracy = (model(images).argmax(1) == labels).float().mean().item()
assert len(data) == len(nodes) and accuracy > 0.5
for node in nodes:
    node.close()
accuracy
