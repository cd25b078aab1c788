"""Part 10: models are trained apart, and their parameters are averaged under encryption."""

# %%
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_diabetes
from torch.optim import SGD

import syft as sy

hook = sy.TorchHook(torch)
bob = sy.VirtualWorker(hook, id="bob")
alice = sy.VirtualWorker(hook, id="alice")
james = sy.VirtualWorker(hook, id="james")
compute_nodes = [bob, alice]

# %%
X, y = load_diabetes(return_X_y=True)
X = torch.tensor(X).float()
X = (X - X.mean(0)) / X.std(0)
y = (torch.tensor(y).float().view(-1, 1) - 150) / 77
remote_dataset = ([], [])
for batch_idx, (data, target) in enumerate(zip(X[:384].split(32), y[:384].split(32), strict=True)):
    data = data.send(compute_nodes[batch_idx % len(compute_nodes)])
    target = target.send(compute_nodes[batch_idx % len(compute_nodes)])
    remote_dataset[batch_idx % len(compute_nodes)].append((data, target))

# %%
torch.manual_seed(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(10, 16)
        self.fc2 = nn.Linear(16, 1)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


models = [Net(), Net()]
params = [list(model.parameters()) for model in models]
optimizers = [SGD(model.parameters(), lr=0.05) for model in models]


def update(data, target, model, optimizer):
    model.send(data.location)
    optimizer.zero_grad()
    loss = F.mse_loss(model(data), target)
    loss.backward()
    optimizer.step()
    return model


def test():
    with torch.no_grad():
        return F.mse_loss(models[0](X[384:]), y[384:]).item()


before = test()
before


# %%
def train():
    for data_index in range(len(remote_dataset[0]) - 1):
        for remote_index in range(len(compute_nodes)):
            data, target = remote_dataset[remote_index][data_index]
            models[remote_index] = update(data, target, models[remote_index], optimizers[remote_index])
    new_params = []
    for param_i in range(len(params[0])):
        spdz_params = []
        for remote_index in range(len(compute_nodes)):
            copy_of_parameter = params[remote_index][param_i].copy()
            fixed_precision_param = copy_of_parameter.fix_precision()
            encrypted_param = fixed_precision_param.share(bob, alice, crypto_provider=james)
            spdz_params.append(encrypted_param.get())
        new_params.append((spdz_params[0] + spdz_params[1]).get().float_precision() / 2)
    with torch.no_grad():
        for model in params:
            for param in model:
                param *= 0
        for model in models:
            model.get()
        for remote_index in range(len(compute_nodes)):
            for param_index in range(len(params[remote_index])):
                params[remote_index][param_index].set_(new_params[param_index])


for epoch in range(3):
    train()
    print(f"epoch {epoch}: {test():.3f}")

# %%
assert test() < 0.8 * before
for one, other in zip(*params, strict=True):
    assert torch.equal(one, other)
