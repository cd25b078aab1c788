"""Advanced: what a computation costs in messages and bytes, in place of a packet sniffer."""

# %%
import torch

import syft as sy

hook = sy.TorchHook(torch)
bob = sy.VirtualWorker(hook, id="bob")

# %%
with sy.count_messages() as count:
    x = torch.ones(1000).send(bob)
    y = (x + x).get()
count

# %%
assert count.messages >= 3 and torch.equal(y, 2 * torch.ones(1000))

# %%
try:
    sy.NetworkMonitor
except AttributeError as error:
    assert "count_messages" in str(error)
else:
    raise AssertionError("sy.NetworkMonitor exists")
