"""Part 13 on torch: a model is encrypted once and answers three private predictions of a client."""

# %%
import torch
import torch.nn as nn

import syft as sy

hook = sy.TorchHook(torch)
alice, bob, carol, laptop = (sy.VirtualWorker(hook, id=name) for name in ("alice", "bob", "carol", "laptop"))

# %%
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(18, 10))
images = torch.rand(4, 1, 8, 8)
expected = model(images).detach()
model.fix_precision(base=2, precision_fractional=16).share(alice, bob, crypto_provider=carol)
served = model.serve(in_shape=(1, 1, 8, 8), num_requests=3)
served

# %%
client = sy.mpc.ModelClient(laptop)
client.connect_to_model(served.invite(), in_shape=(1, 1, 8, 8), out_shape=(1, 10))
for number in range(3):
    assert torch.allclose(client.query_model(images[number : number + 1]), expected[number : number + 1], atol=1e-2)

# %%
try:
    client.query_model(images[3:])
except sy.exceptions.SyftError as error:
    print(error)
else:
    raise AssertionError("a fourth request was answered")
served.stop()
client.close()
