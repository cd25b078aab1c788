"""Part 12: a network is trained with model, data and target encrypted."""

# %%
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

import syft as sy

hook = sy.TorchHook(torch)
alice = sy.VirtualWorker(id="alice", hook=hook)
bob = sy.VirtualWorker(id="bob", hook=hook)
james = sy.VirtualWorker(id="james", hook=hook)

# %%
data = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1.0]])
target = torch.tensor([[0], [0], [1], [1.0]])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, 2)
        self.fc2 = nn.Linear(2, 1)

    def forward(self, x):
        x = self.fc1(x)
        x = F.relu(x)
        return self.fc2(x)


torch.manual_seed(3)
model = Net()
in_clear = model.copy()
model(data)

# %%
data = data.fix_precision().share(bob, alice, crypto_provider=james, requires_grad=True)
target = target.fix_precision().share(bob, alice, crypto_provider=james, requires_grad=True)
model = model.fix_precision().share(bob, alice, crypto_provider=james, requires_grad=True)
data

# %%
opt = optim.SGD(params=model.parameters(), lr=0.1).fix_precision()
losses = []
for _ in range(8):
    opt.zero_grad()
    pred = model(data)
    loss = ((pred - target) ** 2).sum()
    loss.backward()
    opt.step()
    losses.append(loss.get().float_precision().item())
losses

# %%
x, y = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1.0]]), torch.tensor([[0], [0], [1], [1.0]])
opt = optim.SGD(params=in_clear.parameters(), lr=0.1)
expected = []
for _ in range(8):
    opt.zero_grad()
    loss = ((in_clear(x) - y) ** 2).sum()
    loss.backward()
    opt.step()
    expected.append(loss.item())
assert max(abs(a - b) for a, b in zip(losses, expected, strict=True)) < 0.05
