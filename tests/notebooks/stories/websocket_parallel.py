"""Advanced: asynchronous federated learning; all workers fit at once, awaited in a cell."""

# %%
import asyncio
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

import syft as sy
from syft.frameworks.torch.fl import utils
from syft.workers.websocket_client import WebsocketClientWorker

hook = sy.TorchHook(torch)
workers = [
    WebsocketClientWorker(hook, host="localhost", port=int(os.environ[f"{name.upper()}_PORT"]), id=f"notebook-{name}")
    for name in ("alice", "bob")
]


# %%
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, 8)
        self.fc2 = nn.Linear(8, 2)

    def forward(self, x):
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


@torch.jit.script
def loss_fn(pred, target):
    return F.nll_loss(input=pred, target=target.long())


torch.manual_seed(1)
traced_model = torch.jit.trace(Net(), torch.zeros([1, 2], dtype=torch.float))


async def fit_model_on_worker(worker, traced_model):
    train_config = sy.TrainConfig(
        model=traced_model,
        loss_fn=loss_fn,
        batch_size=4,
        shuffle=True,
        epochs=20,
        optimizer="SGD",
        optimizer_args={"lr": 0.2},
    )
    train_config.send(worker)
    loss = await worker.async_fit(dataset_key="xor", return_ids=[0])
    return worker.id, train_config.model_ptr.get().obj, float(loss)


# %%
for curr_round in range(3):
    results = await asyncio.gather(*[fit_model_on_worker(worker, traced_model) for worker in workers])
    traced_model = utils.federated_avg({worker_id: model for worker_id, model, _ in results})
results

# %%
train_config = sy.TrainConfig(batch_size=4, model=traced_model, loss_fn=loss_fn, optimizer_args=None, epochs=1)
train_config.send(workers[0])
result = workers[0].evaluate(dataset_key="xor", return_histograms=True, nr_bins=2)
assert result["nr_predictions"] == 4 and result["nr_correct_predictions"] >= 3
result

# %%
for worker in workers:
    worker.close()
