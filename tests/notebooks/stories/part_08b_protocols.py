"""Part 8b: a protocol of three plans over three workers."""

# %%
import torch

import syft as sy

hook = sy.TorchHook(torch)
me = hook.local_worker
me.is_client_worker = False
alice = sy.VirtualWorker(hook, id="alice")
bob = sy.VirtualWorker(hook, id="bob")
charlie = sy.VirtualWorker(hook, id="charlie")
james = sy.VirtualWorker(hook, id="james")


# %%
@sy.func2plan(args_shape=[(1,)])
def inc1(x):
    return x + 1


@sy.func2plan(args_shape=[(1,)])
def inc2(x):
    return x + 1


@sy.func2plan(args_shape=[(1,)])
def inc3(x):
    return x + 1


protocol = sy.Protocol([("worker1", inc1), ("worker2", inc2), ("worker3", inc3)])
protocol

# %%
protocol.deploy(alice, bob, charlie)
x = torch.tensor([1.0])
ptr = protocol.run(x)
ptr

# %%
assert ptr.location == charlie and ptr.get().item() == 4.0

# %%
protocol = sy.Protocol([("worker1", inc1), ("worker2", inc2), ("worker3", inc3)])
protocol.tag("my_protocol")
protocol.send(james)
me.request_search(["my_protocol"], location=james)

# %%
ptr_protocol = me.request_search(["my_protocol"], location=james)[0]
protocol_back = ptr_protocol.get()
protocol_back.deploy(alice, bob, charlie)
x = torch.tensor([2.0])
assert protocol_back.run(x).get().item() == 5.0
me.is_client_worker = True
