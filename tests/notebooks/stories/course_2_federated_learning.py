"""The course, section 2: remote tensors, in-place moves, garbage collection and a toy model."""

# %%
import torch as th
from torch import nn, optim

import syft as sy

hook = sy.TorchHook(th)
bob = sy.VirtualWorker(hook, id="bob")
alice = sy.VirtualWorker(hook, id="alice")
bob.clear_objects()
alice.clear_objects()

# %%
x = th.tensor([1, 2, 3, 4, 5]).send(bob)
hook.local_worker._known_workers

# %%
assert x.location == bob and x.get().tolist() == [1, 2, 3, 4, 5] and not bob._objects
x_ptr = th.tensor([1, 2, 3, 4, 5]).send(bob, alice)
x_ptr.get()

# %%
x = th.tensor([1, 2, 3, 4, 5]).send(bob, alice)
assert [part.tolist() for part in x.get()] == [[1, 2, 3, 4, 5]] * 2
x = th.tensor([1, 2, 3, 4, 5]).send(bob, alice)
assert x.get(sum_results=True).tolist() == [2, 4, 6, 8, 10]

# %%
x = th.tensor([1.0, 2, 3]).send(bob)
for _ in range(100):
    x = th.tensor([1.0, 2, 3]).send(bob)
assert len(bob._objects) == 1
del x
assert not bob._objects

# %%
input = th.tensor([[1.0, 1], [0, 1.0], [1, 0], [0, 0]], requires_grad=True).send(bob)
target = th.tensor([[1.0], [1], [0], [0]], requires_grad=True).send(bob)
th.manual_seed(0)
weights = th.tensor([[0.0], [0.0]], requires_grad=True).send(bob)
for _ in range(10):
    pred = input.mm(weights)
    loss = ((pred - target) ** 2).sum()
    loss.backward()
    weights.data.sub_(weights.grad * 0.1)
    weights.grad *= 0
loss.get().data

# %%
assert th.allclose(weights.get().data.flatten(), th.tensor([0.0, 1.0]), atol=0.3)
x = th.tensor([1.0, 2, 3]).send(bob)
y = x.send(alice)
assert y.get().get().tolist() == [1.0, 2, 3]
x = th.tensor([1.0, 2, 3]).send(bob).send(alice)
x.remote_get()
assert not bob._objects or x.get().tolist() == [1.0, 2, 3]

# %%
model = nn.Linear(2, 1)
opt = optim.SGD(params=model.parameters(), lr=0.1)
data = [
    (th.tensor([[1.0, 1], [0, 1]]).send(bob), th.tensor([[1.0], [1]]).send(bob)),
    (th.tensor([[1.0, 0], [0, 0]]).send(alice), th.tensor([[0.0], [0]]).send(alice)),
]
for _ in range(20):
    for _data, _target in data:
        model = model.send(_data.location)
        opt.zero_grad()
        pred = model(_data)
        loss = ((pred - _target) ** 2).sum()
        loss.backward()
        opt.step()
        model = model.get()
final = loss.get().item()
assert final < 0.2
final
