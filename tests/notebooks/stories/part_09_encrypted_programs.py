"""Part 9: secret sharing by hand, then with share(): sums, products, comparisons."""

# %%
import random

import torch

import syft as sy

hook = sy.TorchHook(torch)
bob = sy.VirtualWorker(hook, id="bob")
alice = sy.VirtualWorker(hook, id="alice")
bill = sy.VirtualWorker(hook, id="bill")
crypto_provider = sy.VirtualWorker(hook, id="crypto_provider")
bob.clear_objects()

# %%
Q = 1234567891011


def encrypt(x, n_share=3):
    shares = [random.randint(0, Q) for _ in range(n_share - 1)]
    shares.append(Q - (sum(shares) % Q) + x)
    return tuple(shares)


def decrypt(shares):
    return sum(shares) % Q


assert decrypt(encrypt(5)) == 5
assert decrypt(a + b for a, b in zip(encrypt(5), encrypt(10), strict=True)) == 15

# %%
x = torch.tensor([25])
encrypted_x = x.share(bob, alice, bill)
encrypted_x

# %%
bobs_share = list(bob._objects.values())[0]  # noqa: RUF015
alices_share = alice._objects[encrypted_x.child.child["alice"].id_at_location]
bills_share = bill._objects[encrypted_x.child.child["bill"].id_at_location]
bobs_share

# %%
field = encrypted_x.child.field
(bobs_share + alices_share + bills_share) % field

# %%
assert int((bobs_share + alices_share + bills_share) % field) == 25
assert encrypted_x.get().tolist() == [25]

# %%
x = torch.tensor([25]).share(bob, alice)
y = torch.tensor([5]).share(bob, alice)
assert (x + y).get().tolist() == [30] and (x - y).get().tolist() == [20]

# %%
x = torch.tensor([25]).share(bob, alice, crypto_provider=crypto_provider)
y = torch.tensor([5]).share(bob, alice, crypto_provider=crypto_provider)
z = x * y
z.get()

# %%
x = torch.tensor([[1, 2], [3, 4]]).share(bob, alice, crypto_provider=crypto_provider)
y = torch.tensor([[2, 0], [0, 2]]).share(bob, alice, crypto_provider=crypto_provider)
assert x.mm(y).get().tolist() == [[2, 4], [6, 8]]

# %%
x = torch.tensor([25]).share(bob, alice, crypto_provider=crypto_provider)
y = torch.tensor([5]).share(bob, alice, crypto_provider=crypto_provider)
z = x > y
z.get()

# %%
assert (x <= y).get().item() == 0 and (x == y + 20).get().item() == 1 and (x == y).get().item() == 0
x = torch.tensor([2, 3, 4, 1]).share(bob, alice, crypto_provider=crypto_provider)
x.max().get()

# %%
x = torch.tensor([[2, 3], [4, 1]]).share(bob, alice, crypto_provider=crypto_provider)
max_values, max_ids = x.max(dim=0)
assert max_values.get().tolist() == [4, 3] and max_ids.get().tolist() == [1, 0]
