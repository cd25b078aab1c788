"""Penetration test: a worker with private data; the attacks that once worked are refused."""

# %%
import torch

import syft as sy

hook = sy.TorchHook(torch)
bob = sy.VirtualWorker(hook, id="bob")
secret = torch.tensor([1.0, 2.0, 3.0]).private_tensor(allowed_users=["bob"])
ptr = secret.send(bob, user="bob")
ptr

# %%
refused = 0
for attack in (
    lambda: ptr.get(),
    lambda: ptr.get(user="mallory"),
    lambda: ptr.copy().get(),
    lambda: float(ptr.sum()),
    lambda: ptr.tolist(),
    lambda: ptr.sum().item(),
):
    try:
        attack()
    except Exception as error:
        assert "1., 2." not in str(error) and "6.0" not in str(error)
        refused += 1
assert refused == 6

# %%
assert "2." not in repr(ptr)
found = ptr.get(user="bob")  # still private, now here
assert found.get(user="bob").tolist() == [1.0, 2.0, 3.0]
