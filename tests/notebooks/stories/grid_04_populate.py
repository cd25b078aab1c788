"""Grid, federated learning part 1: the owners send labelled digits to their nodes and leave."""

# %%
import os

import torch
from sklearn.datasets import load_digits

import syft as sy
from syft.workers.node_client import NodeClient

hook = sy.TorchHook(torch)
nodes = [
    NodeClient(hook, url, token=token)
    for url, token in zip(os.environ["NODE_URLS"].split(), os.environ["OWNER_TOKENS"].split(), strict=True)
]

# %%
digits = load_digits()
images, labels = torch.tensor(digits.data[:600]).float() / 16, torch.tensor(digits.target[:600])
for node, x, y in zip(nodes, images.chunk(len(nodes)), labels.chunk(len(nodes)), strict=True):
    for tensor, tag in ((x, "#X"), (y, "#Y")):
        if not node.search([tag, "#mnist", "#dataset"]):  # the second run finds the data of the first
            tensor.private_tensor(allowed_users=["scientist"]).tag(tag, "#mnist", "#dataset").describe("digits").send(
                node, garbage_collect_data=False, user="scientist"
            )

# %%
for node in nodes:
    node.close()
