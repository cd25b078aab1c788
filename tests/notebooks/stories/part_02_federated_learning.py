"""Part 2: one linear model learns from two owners in turn."""

# %%
import torch
from torch import nn, optim

import syft as sy

hook = sy.TorchHook(torch)
bob = sy.VirtualWorker(hook, id="bob")
alice = sy.VirtualWorker(hook, id="alice")

# %%
data = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1.0]], requires_grad=True)
target = torch.tensor([[0], [0], [1], [1.0]], requires_grad=True)
torch.manual_seed(1)
model = nn.Linear(2, 1)
model(data)

# %%
data_bob, target_bob = data[0:2].send(bob), target[0:2].send(bob)
data_alice, target_alice = data[2:].send(alice), target[2:].send(alice)
datasets = [(data_bob, target_bob), (data_alice, target_alice)]
opt = optim.SGD(params=model.parameters(), lr=0.1)

# %%
losses = []


def train():
    for _ in range(10):
        for data, target in datasets:
            model.send(data.location)
            opt.zero_grad()
            pred = model(data)
            loss = ((pred - target) ** 2).sum()
            loss.backward()
            opt.step()
            model.get()
            losses.append(loss.get().item())


train()
losses

# %%
assert losses[-1] < 0.1 and losses[-1] < losses[0] / 5
model(data)
