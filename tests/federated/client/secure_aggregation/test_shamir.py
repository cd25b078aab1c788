"""Shamir's secret sharing: enough shares give the secret, fewer reveal nothing, wrong ones are detected."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syft.federated.client.secure_aggregation.shamir import PRIME, SHARE_BYTES, ShamirReconstructor, is_share, split

SECRETS = st.binary(min_size=32, max_size=32)


def test_the_prime_is_one_and_every_secret_is_below_it():
    assert PRIME > 2**256
    odd, twos = PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53):  # Miller and Rabin
        powers = [pow(base, odd * 2**k, PRIME) for k in range(twos)]
        assert powers[0] == 1 or PRIME - 1 in powers


@pytest.mark.parametrize("count", range(1, 7))
def test_every_choice_of_enough_shares_gives_the_secret(count):
    for secret in (bytes(32), b"\xff" * 32, bytes(range(32))):
        for threshold in range(1, count + 1):
            shares = split(secret, threshold, count)
            assert len(shares) == count and all(map(is_share, shares))
            for number in range(threshold, count + 1):
                for points in itertools.permutations(range(1, count + 1), number):
                    if points == tuple(sorted(points)) or number < 4:
                        assert ShamirReconstructor(points).join([shares[point - 1] for point in points]) == secret


@settings(max_examples=25, deadline=None)
@given(SECRETS, SECRETS, st.integers(2, 12), st.data())
def test_fewer_shares_fit_every_secret(secret, other, threshold, data):
    """To `threshold - 1` shares and any other secret there is just one polynomial: each secret is as likely as before."""
    count = data.draw(st.integers(threshold, threshold + 5))
    points = data.draw(st.permutations(range(1, count + 1)))[: threshold - 1]
    shares = split(secret, threshold, count)
    known = {point: int.from_bytes(shares[point - 1], "big") for point in points}
    known[0] = int.from_bytes(other, "big")
    missing = next(point for point in range(1, count + 1) if point not in known)
    value = _at(known, missing)
    held = [shares[point - 1] for point in points]
    assert ShamirReconstructor([*points, missing]).join([*held, value.to_bytes(SHARE_BYTES, "big")]) == other


def _at(known, index):
    """The value at a index of the polynomial through known points."""
    total = 0
    for point, value in known.items():
        term = value
        for other in known:
            if other != point:
                term = term * (index - other) * pow(point - other, -1, PRIME) % PRIME
        total += term
    return total % PRIME


def test_shares_are_fresh_and_uniform():
    first = [split(bytes(32), 2, 3)[0] for _ in range(300)]
    assert len(set(first)) == 300
    high = sum(int.from_bytes(share, "big") > PRIME // 2 for share in first)
    assert abs(high - 150) < 60  # seven standard deviations
    assert split(bytes(32), 1, 3) == [bytes(33)] * 3


def test_coefficients_come_from_the_random_source():
    """A polynomial that is known: 5 + 7 x + 11 x^2 for the secret 5, in Horner's order."""
    drawn = b"".join(number.to_bytes(64, "big") for number in (11, 7))
    asked = []
    shares = split((5).to_bytes(32, "big"), 3, 4, lambda count: asked.append(count) or drawn)
    assert asked == [128]
    assert [int.from_bytes(share, "big") for share in shares] == [5 + 7 * x + 11 * x * x for x in (1, 2, 3, 4)]


def test_wrong_shares_do_not_give_the_secret():
    secret = bytes(range(32))
    shares = split(secret, 3, 5)
    changed = [shares[0], (int.from_bytes(shares[1], "big") ^ 1).to_bytes(33, "big"), shares[2]]
    try:
        assert ShamirReconstructor([1, 2, 3]).join(changed) != secret
    except ValueError:
        pass  # one in 2^256 or so is no secret at all
    assert ShamirReconstructor([2, 1, 3]).join([shares[1], shares[0], shares[2]]) == secret
    with pytest.raises(ValueError, match="different secrets"):
        ShamirReconstructor([1]).join([(PRIME - 1).to_bytes(33, "big")])


def test_invalid_shares_and_secrets_are_refused():
    for secret, threshold, count in ((b"short", 1, 2), (bytes(33), 1, 2), (bytes(32), 0, 2), (bytes(32), 3, 2)):
        with pytest.raises(ValueError):
            split(secret, threshold, count)
    for points in ([], [1, 1], [0, 1], [-1], [PRIME]):
        with pytest.raises(ValueError):
            ShamirReconstructor(points)
    good = split(bytes(32), 2, 2)
    for shares in (good[:1], [*good, good[0]], [good[0], b""], [good[0], PRIME.to_bytes(33, "big")], [good[0], 5]):
        with pytest.raises(ValueError):
            ShamirReconstructor([1, 2]).join(shares)
