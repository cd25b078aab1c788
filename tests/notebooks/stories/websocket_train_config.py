"""Advanced: a traced model and a loss are sent to a worker in another process, which trains on its own data."""

# %%
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

import syft as sy
from syft.workers.websocket_client import WebsocketClientWorker

hook = sy.TorchHook(torch)
alice = WebsocketClientWorker(hook, host="localhost", port=int(os.environ["ALICE_PORT"]), id="notebook-alice")
alice

# %%
data = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
target = torch.tensor([[1.0], [1.0], [1.0], [0.0]])


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, 20)
        self.fc2 = nn.Linear(20, 10)
        self.fc3 = nn.Linear(10, 1)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


@torch.jit.script
def loss_fn(target, pred):
    return ((target.view(pred.shape).float() - pred.float()) ** 2).mean()


torch.manual_seed(1)
model = torch.jit.trace(Net(), data)
before = float(loss_fn(target, model(data)))
before

# %%
train_config = sy.TrainConfig(
    model=model,
    loss_fn=loss_fn,
    batch_size=4,
    shuffle=True,
    optimizer="SGD",
    optimizer_args={"lr": 0.1, "weight_decay": 0.001},
    epochs=10,
)
train_config.send(alice)
for _ in range(5):
    loss = alice.fit(dataset_key="xor")
loss

# %%
new_model = train_config.model_ptr.get()
after = float(loss_fn(target, new_model(data)))
assert after < before / 2
print(new_model)

# %%
alice.close()
