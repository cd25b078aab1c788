"""Shamir secret sharing of 32 bytes: any `threshold` shares reconstruct the secret, fewer reveal nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

# The smallest prime above 2^256, so every 32 bytes are a residue.
PRIME = 2**256 + 297
SECRET_BYTES = 32
SHARE_BYTES = 33
# This many random bytes modulo the prime are uniform up to 2^-255.
_WIDE_BYTES = 64


def split(secret: bytes, threshold: int, count: int, draw: Callable[[int], bytes] = os.urandom) -> list[bytes]:
    """Return shares of a secret: values at 1, 2, ... of a random polynomial whose value at 0 is the secret."""
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"a secret must have {SECRET_BYTES} bytes, got {len(secret)}")
    if not 1 <= threshold <= count:
        raise ValueError(f"the threshold must be from 1 to the number of shares ({count}), got {threshold}")
    wide = draw(_WIDE_BYTES * (threshold - 1))
    indices = range(0, len(wide), _WIDE_BYTES)
    coefficients = [int.from_bytes(wide[index : index + _WIDE_BYTES], "big") % PRIME for index in indices]
    constant = int.from_bytes(secret, "big")
    shares = []
    for point in range(1, count + 1):
        value = 0
        for coefficient in coefficients:
            value = (value + coefficient) * point % PRIME
        shares.append(((value + constant) % PRIME).to_bytes(SHARE_BYTES, "big"))
    return shares


class ShamirReconstructor:
    """Reconstructs secrets from the shares at given points; the first share of `split` is at 1.

    The Lagrange factors depend on the points only, so they are computed once for many secrets.
    """

    __slots__ = ("_factors", "points")

    def __init__(self, points: Sequence[int]) -> None:
        if not points or len(set(points)) != len(points) or not all(0 < point < PRIME for point in points):
            raise ValueError("the points of shares must be distinct and at least 1")
        self.points = tuple(points)
        self._factors = [self._factor(point) for point in self.points]

    def _factor(self, point: int) -> int:
        """Return the Lagrange factor of the share at a point, for the value at 0."""
        above = below = 1
        for other in self.points:
            if other != point:
                above = above * other % PRIME
                below = below * (other - point) % PRIME
        return above * pow(below, -1, PRIME) % PRIME

    def join(self, shares: Sequence[bytes]) -> bytes:
        """Return a secret from its shares, in the order of the points; raises ValueError if they are inconsistent."""
        if len(shares) != len(self.points) or not all(is_share(share) for share in shares):
            raise ValueError("shares must be numbers below the prime, one for each point")
        pairs = zip(self._factors, shares, strict=True)
        value = sum(factor * int.from_bytes(share, "big") for factor, share in pairs) % PRIME
        if value >> (8 * SECRET_BYTES):
            raise ValueError("the shares belong to different secrets")
        return value.to_bytes(SECRET_BYTES, "big")


def is_share(value: object) -> bool:
    """Return whether a value is a valid share."""
    return isinstance(value, bytes) and len(value) == SHARE_BYTES and int.from_bytes(value, "big") < PRIME
