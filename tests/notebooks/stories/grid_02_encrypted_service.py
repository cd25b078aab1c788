"""Grid 2: a model is encrypted over the nodes and answers encrypted questions."""

# %%
import os

import torch
import torch.nn as nn

import syft as sy
from syft.workers.node_client import NodeClient

hook = sy.TorchHook(torch)
nodes = [NodeClient(hook, url) for url in os.environ["NODE_URLS"].split()]
grid = sy.PrivateGridNetwork(*nodes)


# %%
class Net(sy.Plan):
    def __init__(self):
        super().__init__(id="story-convnet")
        self.fc1 = nn.Linear(2, 1)
        self.fc1.weight.data = torch.tensor([[4.0, 9.0]])
        self.fc1.bias.data = torch.zeros(1)
        self.bias = torch.tensor([1000.0])

    def forward(self, x):
        return self.fc1(x) + self.bias


model = Net()
data = torch.tensor([[1.0, 2.0]])
model.build(data)
model

# %%
if not any("story-convnet" in node.models for node in nodes):
    grid.serve_model(model, id=model.id, allow_remote_inference=True, mpc=True)
answer = grid.run_remote_inference("story-convnet", data, mpc=True)
answer

# %%
assert abs(answer.item() - 1022) < 1e-2
for node in nodes:
    node.close()
