"""Shamir's sharing of a secret of 32 bytes: any `threshold` of the shares give it back, fewer tell nothing at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

# The smallest prime above 2^256: every 32 bytes are a number below it.
PRIME = 2**256 + 297
SECRET_BYTES = 32
SHARE_BYTES = 33
# A number of so many random bytes, modulo the prime, is uniform but for one part in 2^255.
_WIDE_BYTES = 64


def split(secret: bytes, threshold: int, count: int, draw: Callable[[int], bytes] = os.urandom) -> list[bytes]:
    """Return the shares of a secret: what a random polynomial gives at 1, 2, ... whose value at 0 is the secret.

    Args:
        secret: 32 bytes.
        threshold: how many shares give it back.
        count: how many shares there are.
        draw: returns so many random bytes.
    """
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"a secret has {SECRET_BYTES} bytes, not {len(secret)}")
    if not 1 <= threshold <= count:
        raise ValueError(f"a threshold is at least 1 and at most the number of shares ({count}), not {threshold}")
    wide = draw(_WIDE_BYTES * (threshold - 1))
    places = range(0, len(wide), _WIDE_BYTES)
    coefficients = [int.from_bytes(wide[place : place + _WIDE_BYTES], "big") % PRIME for place in places]
    constant = int.from_bytes(secret, "big")
    shares = []
    for point in range(1, count + 1):
        value = 0
        for coefficient in coefficients:
            value = (value + coefficient) * point % PRIME
        shares.append(((value + constant) % PRIME).to_bytes(SHARE_BYTES, "big"))
    return shares


class ShamirReconstructor:
    """Gives secrets back from the shares at some points.

    The factors of the shares depend on the points only, so that many secrets cost them once.

    Args:
        points: where the shares are from: 1 for the first of `split`, and so on.
    """

    __slots__ = ("_factors", "points")

    def __init__(self, points: Sequence[int]) -> None:
        if not points or len(set(points)) != len(points) or not all(0 < point < PRIME for point in points):
            raise ValueError("shares come from different points, which begin with 1")
        self.points = tuple(points)
        self._factors = [self._factor(point) for point in self.points]

    def _factor(self, point: int) -> int:
        """Return by what the share at a point is multiplied (Lagrange, at 0)."""
        above = below = 1
        for other in self.points:
            if other != point:
                above = above * other % PRIME
                below = below * (other - point) % PRIME
        return above * pow(below, -1, PRIME) % PRIME

    def join(self, shares: Sequence[bytes]) -> bytes:
        """Return a secret from its shares at the points, in their order; raises ValueError if it can't be one."""
        if len(shares) != len(self.points) or not all(is_share(share) for share in shares):
            raise ValueError("a share is a number below the prime, one for each point")
        pairs = zip(self._factors, shares, strict=True)
        value = sum(factor * int.from_bytes(share, "big") for factor, share in pairs) % PRIME
        if value >> (8 * SECRET_BYTES):
            raise ValueError("these shares do not belong together")
        return value.to_bytes(SECRET_BYTES, "big")


def is_share(value: object) -> bool:
    """Say whether a value has the form of a share."""
    return isinstance(value, bytes) and len(value) == SHARE_BYTES and int.from_bytes(value, "big") < PRIME
