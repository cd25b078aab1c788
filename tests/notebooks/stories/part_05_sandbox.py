"""Part 5: a sandbox with six workers and data sets, and how to find things there."""

# %%
import torch

import syft as sy

sy.create_sandbox(globals())

# %%
workers  # noqa: F821

# %%
x = torch.tensor([1, 2, 3, 4, 5]).tag("#fun", "#boston", "#housing").describe("The input datapoints to the set.")
y = torch.tensor([5, 4, 3, 2, 1]).tag("#fun", "#boston", "#housing").describe("The output datapoints of the set.")
z = torch.tensor([1, 2, 3, 4, 5]).tag("#fun", "#mnist").describe("The images in the training data set.")
x = x.send(bob)  # noqa: F821
y = y.send(bob)  # noqa: F821
z = z.send(bob)  # noqa: F821

# %%
results = bob.search(["#fun", "#boston", "#housing"])  # noqa: F821
results

# %%
assert len(results) >= 2 and results[0].description
mine = [found for found in results if found.id_at_location == x.id_at_location]
assert len(mine) == 1 and mine[0].description == "The input datapoints to the set."

# %%
grid = sy.PrivateGridNetwork(*workers)  # noqa: F821
found = grid.search("#diabetes", "#data")
found

# %%
assert len(found) == 6
assert sum(pointers[0].shape[0] for pointers in found.values()) == 442
found["alice"][0].shape, x.get(), y.get(), z.get()
