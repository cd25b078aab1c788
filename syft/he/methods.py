"""Encrypt and decrypt tensors with Paillier keys; on a pointer, the worker that holds the data encrypts it."""

from __future__ import annotations

from typing import Any

import torch

from syft.core.labels import description_of, tags_of
from syft.core.tensor import below
from syft.exceptions import CommandNotAllowedError, SyftError, UnsupportedOperationError
from syft.he import ciphertexts as c
from syft.he.paillier import Modulus, modulus_from_bytes, modulus_of
from syft.he.paillier_tensor import PaillierTensor, refuse_gradient
from syft.hook.allowed_functions import register_command
from syft.hook.syft_tensor import SyftTensor
from syft.pointers.multi_pointer import MultiPointerTensor
from syft.pointers.pointer_tensor import PointerTensor
from syft.pointers.remote_call import call_by_name

ENCRYPT = "syft.encrypt_paillier"


def encrypt_tensor(tensor: torch.Tensor, public_key: object) -> Any:
    """Return a tensor of ciphertexts; the plain tensor stays as it is."""
    key = modulus_of(public_key)
    link = below(tensor) if isinstance(tensor, SyftTensor) else None
    if isinstance(link, MultiPointerTensor):
        children = [call_by_name(ENCRYPT, (pointer, key.to_bytes()), {}) for pointer in link.child.values()]
        return MultiPointerTensor(children=children).wrap()
    if isinstance(link, PointerTensor):
        return call_by_name(ENCRYPT, (link, key.to_bytes()), {}).wrap()
    if isinstance(link, PaillierTensor):
        raise SyftError("This tensor is encrypted already. Paillier ciphertexts can't be encrypted again.")
    if link is not None:
        raise UnsupportedOperationError("encrypt(public_key)", type(link).__name__, "Encrypt the plain tensor.")
    return _encrypted(tensor, key)


def _encrypted(tensor: torch.Tensor, key: Modulus) -> Any:
    if torch.is_grad_enabled():
        refuse_gradient(tensor, "encrypt()")
    encrypted = PaillierTensor(child=c.encrypt(key, tensor.detach()))
    encrypted.tags, encrypted.description = set(tags_of(tensor)), description_of(tensor)
    return encrypted.wrap()


def decrypt_tensor(tensor: torch.Tensor, private_key: object) -> torch.Tensor:
    """Return the plain tensor."""
    link = below(tensor) if isinstance(tensor, SyftTensor) else None
    if isinstance(link, PointerTensor | MultiPointerTensor):
        raise SyftError("decrypt() runs where the private key is, and keys never travel. Use ptr.get().decrypt(key).")
    if not isinstance(link, PaillierTensor):
        kind = "a plain tensor" if link is None else f"a {type(link).__name__}"
        raise SyftError(f"decrypt(private_key) needs a tensor encrypted with a public key, got {kind}.")
    return link.decrypt(private_key)


def _encrypt_here(tensor: object, key: object) -> Any:
    """Encrypt a tensor that a worker holds, for a client, who sends the modulus of its key."""
    if not isinstance(tensor, torch.Tensor) or isinstance(tensor, SyftTensor):
        raise CommandNotAllowedError("Encrypting this")
    return _encrypted(tensor, modulus_from_bytes(key))


register_command(ENCRYPT, _encrypt_here)
