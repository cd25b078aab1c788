"""Advanced: ordinary least squares over the rows of several owners, under encryption."""

# %%
import torch
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

import syft as sy
from syft.frameworks.torch.linalg import EncryptedLinearRegression

hook = sy.TorchHook(torch)
alice, bob = sy.VirtualWorker(hook, id="alice"), sy.VirtualWorker(hook, id="bob")
crypto_provider = sy.VirtualWorker(hook, id="crypto_provider")
hbc_worker = sy.VirtualWorker(hook, id="hbc_worker")

# %%
data = load_diabetes(scaled=False)
columns = [data.feature_names.index(name) for name in ("bmi", "bp", "s5")]
x, y = torch.tensor(data.data[:, columns]).float(), torch.tensor(data.target).float()
scale = x.std(0)
x_ptrs = [part.send(owner) / scale.send(owner) for part, owner in zip(x.chunk(2), (alice, bob), strict=True)]
y_ptrs = [part.send(owner) / 77 for part, owner in zip(y.chunk(2), (alice, bob), strict=True)]
x_ptrs

# %%
crypto_lr = EncryptedLinearRegression(crypto_provider, hbc_worker)
crypto_lr.fit(x_ptrs, y_ptrs)
crypto_lr.summarize()

# %%
expected = LinearRegression().fit((x / scale).numpy(), (y / 77).numpy())
assert torch.allclose(crypto_lr.coef.float(), torch.tensor(expected.coef_).float(), atol=1e-3)
assert abs(float(crypto_lr.intercept) - float(expected.intercept_)) < 1e-3
