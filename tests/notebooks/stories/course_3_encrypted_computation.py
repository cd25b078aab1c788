"""The course, section 3: secret sharing over three workers, fixed precision, secure aggregation."""

# %%
import torch as th

import syft as sy

hook = sy.TorchHook(th)
bob = sy.VirtualWorker(hook, id="bob").add_worker(sy.local_worker)
alice = sy.VirtualWorker(hook, id="alice").add_worker(sy.local_worker)
secure_worker = sy.VirtualWorker(hook, id="secure_worker").add_worker(sy.local_worker)
x = th.tensor([1, 2, 3, 4, 5]).share(bob, alice, secure_worker)
x

# %%
y = x + x
assert y.get().tolist() == [2, 4, 6, 8, 10]
x = th.tensor([0.1, 0.2, 0.3]).fix_prec()
assert x.child.child.tolist() == [100, 200, 300]
x

# %%
y = x + x
assert th.allclose(y.float_prec(), th.tensor([0.2, 0.4, 0.6]))
x = th.tensor([0.1, 0.2, 0.3]).fix_prec().share(bob, alice, secure_worker)
y = x + x
y.get().float_prec()

# %%
assert th.allclose((x + x).get().float_prec(), th.tensor([0.2, 0.4, 0.6]))
bobs, alices = th.tensor([0.5, 1.5]).send(bob), th.tensor([1.5, 2.5]).send(alice)
shared = [pointer.fix_precision().share(bob, alice, crypto_provider=secure_worker).get() for pointer in (bobs, alices)]
mean = (shared[0] + shared[1]).get().float_precision() / 2
assert mean.tolist() == [1.0, 2.0]
mean
