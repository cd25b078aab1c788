"""Split network 3: three parts at three workers; gradients flow back through the moves."""

# %%
import torch
from sklearn.datasets import load_digits
from torch import nn, optim

import syft as sy

hook = sy.TorchHook(torch)
alice = sy.VirtualWorker(hook, id="alice")
bob = sy.VirtualWorker(hook, id="bob")
carol = sy.VirtualWorker(hook, id="carol")

# %%
torch.manual_seed(0)
models = [
    nn.Sequential(nn.Linear(64, 48), nn.ReLU()),
    nn.Sequential(nn.Linear(48, 32), nn.ReLU()),
    nn.Sequential(nn.Linear(32, 10), nn.LogSoftmax(dim=1)),
]
in_one_place = nn.Sequential(*(model.copy() for model in models))
optimizers = [optim.SGD(model.parameters(), lr=0.3) for model in models]
for model, location in zip(models, [alice, bob, carol], strict=True):
    model.send(location)
digits = load_digits()
images, labels = torch.tensor(digits.data[:600]).float() / 16, torch.tensor(digits.target[:600])


# %%
def train(x, target):
    for opt in optimizers:
        opt.zero_grad()
    a = models[0](x)
    b = models[1](a.move(bob, requires_grad=True))
    pred = models[2](b.move(carol, requires_grad=True))
    loss = nn.NLLLoss()(pred, target)
    loss.backward()
    for opt in optimizers:
        opt.step()
    return loss.detach().get()


losses = []
for _ in range(3):
    for x, y in zip(images.split(100), labels.split(100), strict=True):
        losses.append(train(x.send(alice), y.send(carol)).item())
losses

# %%
optimizer = optim.SGD(in_one_place.parameters(), lr=0.3)
for _ in range(3):
    for x, y in zip(images.split(100), labels.split(100), strict=True):
        optimizer.zero_grad()
        nn.NLLLoss()(in_one_place(x), y).backward()
        optimizer.step()
for model in models:
    model.get()
for found, expected in zip(nn.Sequential(*models).parameters(), in_one_place.parameters(), strict=True):
    assert torch.allclose(found, expected, atol=1e-4)
