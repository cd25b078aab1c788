"""Split networks 1 and 2: a model in two parts at two workers; gradients are passed back by hand."""

# %%
import torch
from sklearn.datasets import load_digits
from torch import nn, optim

import syft as sy

hook = sy.TorchHook(torch)
alice = sy.VirtualWorker(hook, id="alice")
bob = sy.VirtualWorker(hook, id="bob")


# %%
class SplitNN:
    def __init__(self, models, optimizers):
        self.models, self.optimizers = models, optimizers

    def forward(self, x):
        a = self.models[0](x)
        if a.location == self.models[1].location:
            remote_a = a.detach().requires_grad_()
        else:
            remote_a = a.detach().move(self.models[1].location).requires_grad_()
        self.a, self.remote_a = a, remote_a
        return self.models[1](remote_a)

    def backward(self):
        if self.remote_a.location == self.a.location:
            grad_a = self.remote_a.grad.copy()
        else:
            grad_a = self.remote_a.grad.copy().move(self.a.location)
        self.a.backward(grad_a)

    def zero_grads(self):
        for opt in self.optimizers:
            opt.zero_grad()

    def step(self):
        for opt in self.optimizers:
            opt.step()


# %%
torch.manual_seed(0)
models = [
    nn.Sequential(nn.Linear(64, 32), nn.ReLU()),
    nn.Sequential(nn.Linear(32, 10), nn.LogSoftmax(dim=1)),
]
optimizers = [optim.SGD(model.parameters(), lr=0.3) for model in models]
for model, location in zip(models, [alice, bob], strict=True):
    model.send(location)
splitNN = SplitNN(models, optimizers)
digits = load_digits()
images, labels = torch.tensor(digits.data).float() / 16, torch.tensor(digits.target)

# %%
losses = []
for _ in range(3):
    running_loss = 0
    for x, y in zip(images[:1500].split(100), labels[:1500].split(100), strict=True):
        x = x.send(models[0].location)
        y = y.send(models[-1].location)
        splitNN.zero_grads()
        pred = splitNN.forward(x)
        loss = nn.NLLLoss()(pred, y)
        loss.backward()
        splitNN.backward()
        splitNN.step()
        running_loss += loss.detach().get().item()
    losses.append(running_loss)
losses

# %%
assert losses[-1] < 0.7 * losses[0]
