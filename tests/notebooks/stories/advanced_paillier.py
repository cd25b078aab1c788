"""Experimental notebooks: Paillier encryption of gradients, large precision, numpy tensors."""

# %%
import torch

import syft as sy

hook = sy.TorchHook(torch)
pub, pri = sy.keygen(n_length=1024)
x = torch.tensor([0.5, 1.5, -2.0]).encrypt(pub)
x

# %%
assert (x + x).decrypt(pri).tolist() == [1.0, 3.0, -4.0]
assert (x * torch.tensor([2.0, 3.0, 4.0])).decrypt(pri).tolist() == [1.0, 4.5, -8.0]
assert torch.tensor([[1, 2], [3, 4]]).encrypt(pub).mm(torch.tensor([[1], [1]])).decrypt(pri).tolist() == [[3], [7]]

# %%
big = torch.tensor([1.5, -9e16]).fix_prec(precision_fractional=128, internal_type=torch.int16)
assert torch.equal((big + big).float_precision(), torch.tensor([3.0, -1.8e17]))
c = torch.tensor([3, -4]).fix_prec(storage="crt", field_type="int100", precision_fractional=2)
(c * c + 1).float_precision()

# %%
m = sy.NumpyTensor(numpy_tensor=[[1, 2]])
assert (m @ m.transpose()).child.child.tolist() == [[5]]
