"""Part 1: tensors at a worker, arithmetic there, and gradients that stay there."""

# %%
import torch

import syft as sy

hook = sy.TorchHook(torch)
bob = sy.VirtualWorker(hook, id="bob")

# %%
x = torch.tensor([1, 2, 3, 4, 5])
y = torch.tensor([1, 1, 1, 1, 1])
x_ptr = x.send(bob)
y_ptr = y.send(bob)
x_ptr

# %%
bob._objects

# %%
z = x_ptr + y_ptr
z

# %%
assert x_ptr.location == bob and bob == x_ptr.location
assert x_ptr.id_at_location in bob._objects and x_ptr.owner is sy.local_worker
print(x_ptr.location, x_ptr.id_at_location, x_ptr.id, x_ptr.owner)

# %%
z = z.get()
z

# %%
assert z.tolist() == [2, 3, 4, 5, 6]
assert torch.add(x_ptr, y_ptr).get().tolist() == [2, 3, 4, 5, 6]
assert x_ptr.get().tolist() == [1, 2, 3, 4, 5] and y_ptr.get().tolist() == [1] * 5

# %%
x = torch.tensor([1, 2, 3, 4, 5.0], requires_grad=True).send(bob)
y = torch.tensor([1, 1, 1, 1, 1.0], requires_grad=True).send(bob)
z = (x + y).sum()
z.backward()

# %%
x = x.get()
x

# %%
assert torch.equal(x.grad, torch.ones(5))
