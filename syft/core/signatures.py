"""Ed25519 signatures of peers: verified only for public keys that belong to one private key.

Eight points of the curve have a small order. As public keys they accept signatures that nobody made: all-zero bytes
verify for every fourth message under the key that is all zero. The library that verifies does not refuse them.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

__all__ = ["verify"]

_PRIME = 2**255 - 19
# The y coordinate of two points of order eight; that of the two others is its negative.
_ORDER_EIGHT = int.from_bytes(
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little"
)
# Orders 1, 2, 4 and 8. An encoding may be y + _PRIME, and has a bit for the sign of x.
_SMALL_ORDER = frozenset({1, _PRIME - 1, 0, _ORDER_EIGHT, _PRIME - _ORDER_EIGHT})
_SIGN_BIT = 1 << 255


def verify(public: bytes, signature: bytes, data: bytes) -> None:
    """Raise InvalidSignature unless the owner of a public key signed some data; a malformed key is a ValueError."""
    key = Ed25519PublicKey.from_public_bytes(public)
    if (int.from_bytes(public, "little") & (_SIGN_BIT - 1)) % _PRIME in _SMALL_ORDER:
        raise InvalidSignature("the public key has a small order: anybody can sign for it")
    key.verify(signature, data)
