"""Pairwise keys of two clients, secret from the server that relays their messages, and their uses.

X25519 agrees on a secret, HKDF with SHA-256 derives keys, ChaCha20-Poly1305 encrypts messages between two clients.
Each key is bound to the participants (and so to the run, the round and all public keys), to its purpose, and to
sender and receiver. So each key encrypts one message, and a message from another context can't be decrypted.
"""

from __future__ import annotations

import hashlib
import hmac
import os

import torch
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from syft.core.generator import KEY_BYTES, Generator
from syft.exceptions import TrainingError

SECRET_BYTES = 32
TAG_BYTES = 16
# Each key encrypts one message, so a constant nonce is safe.
_NONCE = bytes(12)


def draw(count: int) -> bytes:
    """Return random bytes from the operating system."""
    return os.urandom(count)


def public_of(secret: bytes) -> bytes:
    """Return the public key of a secret key."""
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


class PairwiseSecret:
    """A secret key for agreeing on pairwise secrets."""

    __slots__ = ("_key",)

    def __init__(self, secret: bytes) -> None:
        self._key = X25519PrivateKey.from_private_bytes(secret)

    def agree(self, public: bytes) -> bytes:
        """Return the secret shared by the owners of two keys; raises TrainingError for a degenerate public key."""
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            raise TrainingError("A key in the list of clients is not a valid X25519 public key.") from None


def derive(secret: bytes, salt: bytes, *info: bytes | int) -> bytes:
    """Return 32 bytes of HKDF with SHA-256 (RFC 5869).

    Args:
        secret: the input key material.
        salt: the context that the key is bound to.
        *info: the purpose of the key: names as bytes, and numbers below 2^64.
    """
    extracted = hmac.digest(salt, secret, "sha256")
    return hmac.digest(extracted, joined(*info) + b"\x01", "sha256")


def joined(*parts: bytes | int) -> bytes:
    """Return an unambiguous encoding of parts."""
    pieces = [part.to_bytes(8, "big") if isinstance(part, int) else part for part in parts]
    return b"".join(len(piece).to_bytes(8, "big") + piece for piece in pieces)


def digest(*parts: bytes | int) -> bytes:
    """Return the SHA-256 of parts."""
    return hashlib.sha256(joined(*parts)).digest()


def seal(root: bytes, salt: bytes, sender: int, receiver: int, text: bytes) -> bytes:
    """Encrypt and authenticate the one message of a round from one client to another."""
    key = derive(root, salt, b"seal", sender, receiver)
    return ChaCha20Poly1305(key).encrypt(_NONCE, text, None)


def unseal(root: bytes, salt: bytes, sender: int, receiver: int, sealed: bytes) -> bytes | None:
    """Return the message encrypted by another client; None if authentication fails."""
    key = derive(root, salt, b"seal", sender, receiver)
    try:
        return ChaCha20Poly1305(key).decrypt(_NONCE, sealed, None)
    except InvalidTag:
        return None


def confirmation(root: bytes, salt: bytes, sender: int, receiver: int, text: bytes) -> bytes:
    """Return a MAC that confirms a text from one client to another."""
    key = derive(root, salt, b"vow", sender, receiver)
    return hmac.digest(key, text, "sha256")


def mask(key: bytes, salt: bytes, size: int, *info: bytes | int) -> torch.Tensor:
    """Return a vector of int64 that is uniform to everyone without the key."""
    return Generator(derive(key, salt, *info)[:KEY_BYTES]).words(size)
