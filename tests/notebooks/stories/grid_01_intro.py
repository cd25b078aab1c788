"""Grid 1: a private grid of known nodes, and a public one behind a gateway."""

# %%
import os

import torch

import syft as sy
from syft.workers.node_client import NodeClient

hook = sy.TorchHook(torch)
nodes = [NodeClient(hook, url) for url in os.environ["NODE_URLS"].split()]
private_grid = sy.PrivateGridNetwork(*nodes)
nodes

# %%
pointers = [torch.tensor([1.0 + i, 2.0]).tag("#intro").send(node) for i, node in enumerate(nodes)]
found = private_grid.search("#intro")
assert sorted(found) == sorted(node.id for node in nodes)
found

# %%
public_grid = sy.PublicGridNetwork(hook, os.environ["GATEWAY_URL"])
assert sorted(public_grid.search("#intro")) == sorted(found)

# %%
for pointer in pointers:
    pointer.get()
public_grid.close()
for node in nodes:
    node.close()
