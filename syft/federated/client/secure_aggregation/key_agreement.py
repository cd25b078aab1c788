"""Keys between two clients that only the two know, though the server carries everything, and what is made with them.

X25519 agrees on a secret, HKDF with SHA-256 makes keys of it, ChaCha20-Poly1305 seals what goes from one to the other.
Each key is bound to a roster (so to the run, the round and everybody's keys in it), to what it is for, and to who sends
to whom; so each seals one message in its life, and what belongs elsewhere can't be opened.
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
# A key seals one message, so all of them can have the same number.
_NONCE = bytes(12)


def draw(count: int) -> bytes:
    """Return random bytes of the operating system."""
    return os.urandom(count)


def public_of(secret: bytes) -> bytes:
    """Return the public key of a secret one."""
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


class PairwiseSecret:
    """A secret key that secrets are agreed on with.

    Args:
        secret: its 32 bytes.
    """

    __slots__ = ("_key",)

    def __init__(self, secret: bytes) -> None:
        self._key = X25519PrivateKey.from_private_bytes(secret)

    def agree(self, public: bytes) -> bytes:
        """Return what only the owners of two keys know; raises TrainingError for a key that gives nothing secret."""
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            raise TrainingError("A key in the list of clients is none that a secret can be agreed on with.") from None


def derive(secret: bytes, salt: bytes, *info: bytes | int) -> bytes:
    """Return 32 bytes of HKDF with SHA-256 (RFC 5869).

    Args:
        secret: what only its owners know.
        salt: what it is bound to.
        *info: what the key is for; names as bytes and numbers below 2^64.
    """
    extracted = hmac.digest(salt, secret, "sha256")
    return hmac.digest(extracted, joined(*info) + b"\x01", "sha256")


def joined(*parts: bytes | int) -> bytes:
    """Return parts as one text that no other parts give."""
    pieces = [part.to_bytes(8, "big") if isinstance(part, int) else part for part in parts]
    return b"".join(len(piece).to_bytes(8, "big") + piece for piece in pieces)


def digest(*parts: bytes | int) -> bytes:
    """Return the SHA-256 of parts."""
    return hashlib.sha256(joined(*parts)).digest()


def seal(root: bytes, salt: bytes, sender: int, receiver: int, text: bytes) -> bytes:
    """Encrypt and authenticate the one text that a client sends to another in a round."""
    key = derive(root, salt, b"seal", sender, receiver)
    return ChaCha20Poly1305(key).encrypt(_NONCE, text, None)


def unseal(root: bytes, salt: bytes, sender: int, receiver: int, sealed: bytes) -> bytes | None:
    """Return the text that was sealed by another client; None if it was not, or was changed since."""
    key = derive(root, salt, b"seal", sender, receiver)
    try:
        return ChaCha20Poly1305(key).decrypt(_NONCE, sealed, None)
    except InvalidTag:
        return None


def vow(root: bytes, salt: bytes, sender: int, receiver: int, text: bytes) -> bytes:
    """Return a code by which one client tells another that it goes by a text, and that nobody else can make."""
    key = derive(root, salt, b"vow", sender, receiver)
    return hmac.digest(key, text, "sha256")


def mask(key: bytes, salt: bytes, size: int, *info: bytes | int) -> torch.Tensor:
    """Return a vector of int64, uniform to all who do not know a key."""
    return Generator(derive(key, salt, *info)[:KEY_BYTES]).words(size)
