"""Homomorphic encryption: tensors of Paillier ciphertexts, on which sums and products by plain numbers are computed.

Example:
    >>> import torch, syft as sy
    >>> hook = sy.TorchHook(torch)
    >>> public_key, private_key = sy.keygen(n_length=1024)
    >>> x = torch.tensor([1.5, 2.0]).encrypt(public_key)
    >>> (x * torch.tensor([2.0, 3.0])).decrypt(private_key)
    tensor([3., 6.])
"""
