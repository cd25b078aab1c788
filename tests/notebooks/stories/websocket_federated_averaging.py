"""Advanced: federated averaging over two server processes."""

# %%
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

import syft as sy
from syft.frameworks.torch.fl import utils
from syft.workers.websocket_client import WebsocketClientWorker

hook = sy.TorchHook(torch)
workers = [
    WebsocketClientWorker(hook, host="localhost", port=int(os.environ[f"{name.upper()}_PORT"]), id=f"notebook-{name}")
    for name in ("alice", "bob")
]
for worker in workers:
    worker.clear_objects_remote()

# %%
digits = load_digits()
images, labels = torch.tensor(digits.data).float() / 16, torch.tensor(digits.target)
federated_train_loader = sy.FederatedDataLoader(
    sy.BaseDataset(images[:960], labels[:960]).federate(tuple(workers)),
    batch_size=96,
    shuffle=True,
    iter_per_worker=True,
)
assert federated_train_loader.num_iterators == 2
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
model(images[:2])


# %%
def train_on_batches(worker, batches, model_in, lr):
    model = model_in.copy()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    model.train()
    model.send(worker)
    for data, target in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()
    model.get()
    return model, loss.get().item()


for _ in range(4):
    batches = {worker: [] for worker in workers}
    for step in federated_train_loader:
        for worker in workers:
            batches[worker].append(step[worker])
    models = {}
    for worker in workers:
        models[worker], loss = train_on_batches(worker, batches[worker], model, lr=0.5)
    model = utils.federated_avg(models)
    print(loss)

# %%
accuracy = utils.accuracy(model(images[960:]), labels[960:])
assert accuracy > 0.6
for worker in workers:
    worker.close()
accuracy
