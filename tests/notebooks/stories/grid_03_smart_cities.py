"""Grid 3: homes publish what they use; the sum wanders from node to node and is averaged at the last one."""

# %%
import os

import torch

import syft as sy
from syft.workers.node_client import NodeClient

hook = sy.TorchHook(torch)
home1, home2, home3 = (NodeClient(hook, url) for url in os.environ["NODE_URLS"].split()[:3])

# %%
pointers = [
    torch.tensor(used)
    .tag("#energy-consumption")
    .describe("What this home used, in kWh.")
    .send(home, garbage_collect_data=False)
    for home, used in ((home1, 25.0), (home2, 26.5), (home3, 29.0))
]
pointers

# %%
grid = sy.PublicGridNetwork(hook, os.environ["GATEWAY_URL"])
results = grid.search("#energy-consumption")
results

# %%
assert sorted(results) == sorted(home.id for home in (home1, home2, home3))
summed = None
for worker_id in results:
    value = results[worker_id][-1]
    summed = value if summed is None else summed.move(value.location) + value
average = (summed / 3).get()
average

# %%
assert abs(average.item() - 80.5 / 3) < 1e-4
assert pointers[2].get().item() == 29.0  # the others have moved
for home in (home1, home2, home3):
    home.close()
grid.close()
