"""Advanced: a recurrent network reads names letter by letter; copies are trained apart and averaged."""

# %%
import builtins
import keyword

import torch
import torch.nn as nn
import torch.nn.functional as F

import syft as sy
from syft.frameworks.torch.fl import utils

hook = sy.TorchHook(torch)
alice = sy.VirtualWorker(hook, id="alice")
bob = sy.VirtualWorker(hook, id="bob")
workers_virtual = [alice, bob]
all_letters = "abcdefghijklmnopqrstuvwxyz_"

# %%
words = [(word, 0) for word in keyword.kwlist if word.islower()]
words += [(word, 1) for word in dir(builtins) if word.islower() and not word.startswith("_")]


def line_to_tensor(line):
    tensor = torch.zeros(1, 6, len(all_letters))
    for i, letter in enumerate(line[-6:].rjust(6)):
        if letter in all_letters:
            tensor[0, i, all_letters.index(letter)] = 1
    return tensor


torch.manual_seed(1)
mixed = torch.randperm(len(words)).tolist()
lines = torch.cat([line_to_tensor(words[i][0]) for i in mixed])
categories = torch.tensor([words[i][1] for i in mixed])
parts = {
    worker: (x.send(worker), y.send(worker))
    for worker, x, y in zip(workers_virtual, lines.chunk(2), categories.chunk(2), strict=True)
}


# %%
class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.i2o = nn.Linear(input_size + hidden_size, output_size)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, input, hidden):
        combined = torch.cat((input, hidden), 1)
        hidden = torch.tanh(self.i2h(combined))
        return self.softmax(self.i2o(combined)), hidden


def train(model, worker, lr=0.3):
    x, y = parts[worker]
    hidden = torch.zeros(len(x), model.hidden_size).send(worker)
    model.zero_grad()
    for i in range(x.shape[1]):
        output, hidden = model(x[:, i], hidden)
    loss = F.nll_loss(output, y)
    loss.backward()
    for param in model.parameters():
        param.data.add_(-lr, param.grad.data)
    return loss


# %%
model = RNN(len(all_letters), 16, 2)
losses = []
for _ in range(4):
    models = {}
    for worker in workers_virtual:
        model_ptr = model.copy().send(worker)
        for _ in range(3):
            loss = train(model_ptr, worker)
        losses.append(loss.get().item())
        models[worker] = model_ptr.get()
    model = utils.federated_avg(models)
losses

# %%
assert losses[-1] < losses[0]
