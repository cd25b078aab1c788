"""Part 3: pointers to pointers, and data that moves from worker to worker."""

# %%
import torch

import syft as sy

hook = sy.TorchHook(torch)
bob = sy.VirtualWorker(hook, id="bob")
alice = sy.VirtualWorker(hook, id="alice")
bob.clear_objects()
alice.clear_objects()

# %%
x = torch.tensor([1, 2, 3, 4])
x_ptr = x.send(bob)
pointer_to_x_ptr = x_ptr.send(alice)
pointer_to_x_ptr

# %%
alice._objects, bob._objects

# %%
assert len(alice._objects) == 1 and len(bob._objects) == 1
x_ptr = pointer_to_x_ptr.get()
x = x_ptr.get()
x

# %%
assert x.tolist() == [1, 2, 3, 4] and not bob._objects and not alice._objects
p_x = torch.tensor([1, 2, 3, 4, 5]).send(bob).send(alice)
y = p_x + p_x
y

# %%
assert len(bob._objects) == 2 and len(alice._objects) == 2
y = y.get().get()
y

# %%
assert y.tolist() == [2, 4, 6, 8, 10]
x = torch.tensor([1, 2, 3, 4, 5]).send(bob)
x = x.move(alice)
x

# %%
assert x.location == alice and len(alice._objects) == 2
assert x.get().tolist() == [1, 2, 3, 4, 5]
