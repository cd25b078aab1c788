"""Signatures are verified only for keys of full order."""

from __future__ import annotations

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from syft.core.signatures import verify

PRIME = 2**255 - 19
D = -121665 * pow(121666, -1, PRIME) % PRIME
ORDER_EIGHT = int.from_bytes(
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little"
)
SMALL_Y = [0, 1, PRIME - 1, ORDER_EIGHT, PRIME - ORDER_EIGHT]
# Every way to write them that fits: y may be given beyond the prime, and the sign of x is a bit.
ENCODED = [
    (y + beyond | sign << 255).to_bytes(32, "little")
    for y in SMALL_Y
    for beyond in (0, PRIME)
    for sign in (0, 1)
    if y + beyond < 2**255
]


def double(x, y):
    product = D * x * x * y * y
    return (
        2 * x * y * pow(1 + product, -1, PRIME) % PRIME,
        (y * y + x * x) * pow(1 - product, -1, PRIME) % PRIME,
    )


def x_of(y):
    """One x of a point with this y: a square root of (y^2 - 1) / (d y^2 + 1)."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, PRIME) % PRIME
    root = pow(square, (PRIME + 3) // 8, PRIME)
    if root * root % PRIME != square:
        root = root * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    assert root * root % PRIME == square
    return root


@pytest.mark.parametrize("y", SMALL_Y)
def test_the_points_have_an_order_of_eight_at_most(y):
    point = (x_of(y), y)
    for _ in range(3):
        point = double(*point)
    assert point == (0, 1)


@pytest.mark.parametrize("public", ENCODED, ids=lambda public: public.hex()[:6] + public.hex()[-4:])
def test_no_signature_is_valid_for_a_key_of_small_order(public):
    """Without the check, all-zero bytes or another encoding of a small point verify for some of a few messages."""
    forged = [encoded + bytes(32) for encoded in ENCODED]
    for number in range(16):
        for signature in forged:
            with pytest.raises((InvalidSignature, ValueError)):
                verify(public, signature, b"message %d" % number)


def test_the_library_alone_accepts_forged_signatures():
    """If this fails, the library has learnt to refuse such keys, and `syft.core.signatures` can go."""
    accepted = 0
    for number in range(64):
        try:
            Ed25519PublicKey.from_public_bytes(bytes(32)).verify(bytes(64), b"message %d" % number)
            accepted += 1
        except InvalidSignature:
            pass
    assert accepted


def test_signatures_of_real_keys():
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw()
    verify(public, key.sign(b"text"), b"text")
    for wrong in (key.sign(b"another text"), bytes(64), b""):
        with pytest.raises(InvalidSignature):
            verify(public, wrong, b"text")
    with pytest.raises(ValueError):
        verify(public[:-1], key.sign(b"text"), b"text")
