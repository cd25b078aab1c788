"""Part 7: a federated data set from the results of a search, with one Adam for each owner."""

# %%
import torch as th

import syft as sy

sy.create_sandbox(globals(), verbose=False)

# %%
data, target = grid.search("#diabetes", "#data"), grid.search("#diabetes", "#target")  # noqa: F821
n_features = data["alice"][0].shape[1]
n_targets = 1
data["alice"]

# %%
datasets = []
for worker in ("bob", "alice"):
    x, y = data[worker][0].float(), target[worker][0].float().view(-1, 1) / 100
    datasets.append(sy.BaseDataset(x * 20, y))
dataset = sy.FederatedDataset(datasets)
dataset.workers

# %%
th.manual_seed(1)
model = th.nn.Sequential(
    th.nn.Linear(n_features, 32), th.nn.ReLU(), th.nn.Linear(32, 24), th.nn.ReLU(), th.nn.Linear(24, n_targets)
)
workers = dataset.workers
optimizers = {worker: th.optim.Adam(params=model.parameters(), lr=1e-2) for worker in workers}
train_loader = sy.FederatedDataLoader(dataset, batch_size=32, shuffle=False, drop_last=False)

# %%
totals = []
for _ in range(10):
    total = 0.0
    for data_ptr, target_ptr in train_loader:
        model.send(data_ptr.location)
        optimizer = optimizers[data_ptr.location.id]
        optimizer.zero_grad()
        pred = model(data_ptr)
        loss = ((pred - target_ptr) ** 2).mean()
        loss.backward()
        optimizer.step()
        model.get()
        total += float(loss.get())
    totals.append(total)
totals

# %%
assert totals[-1] < totals[0] / 3
