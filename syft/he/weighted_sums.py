"""Sums of encrypted numbers times plain weights, by simultaneous exponentiation.

The ciphertext of a weighted sum is a product of powers. The powers share their squarings, and each ciphertext has a
table of its small powers that all weights use (Straus' algorithm). That takes a quarter of the time of single powers.
"""

from __future__ import annotations

from typing import Any

from syft.he.modular import arithmetic
from syft.he.paillier import Modulus

MAX_WINDOW = 6


def weighted_sums(key: Modulus, values: list[Any], columns: list[list[int]]) -> list[Any]:
    """Return the ciphertext of the sum of values times weights, for each column of weights."""
    bits = max((weight.bit_length() for column in columns for weight in column), default=0)
    if not bits:
        return [arithmetic().number(1) for _ in columns]
    window = min(range(1, MAX_WINDOW + 1), key=lambda w: 2**w + len(columns) * -(-bits // w))
    tables = [_small_powers(value, window, key.square) for value in values]
    return [_weighted_sum(key, tables, column, window) for column in columns]


def _small_powers(value: Any, window: int, square: Any) -> list[Any]:
    powers = [arithmetic().number(1), value]
    for _ in range(2, 1 << window):
        powers.append(powers[-1] * value % square)
    return powers


def _weighted_sum(key: Modulus, tables: list[list[Any]], weights: list[int], window: int) -> Any:
    """Return one weighted sum; inverts once, for all negative weights."""
    positive = [(table, weight) for table, weight in zip(tables, weights, strict=True) if weight > 0]
    negative = [(table, -weight) for table, weight in zip(tables, weights, strict=True) if weight < 0]
    result = _product_of_powers(key, positive, window)
    if not negative:
        return result
    return result * arithmetic().power(_product_of_powers(key, negative, window), -1, key.square) % key.square


def _product_of_powers(key: Modulus, terms: list[tuple[list[Any], int]], window: int) -> Any:
    square, mask = key.square, (1 << window) - 1
    result = arithmetic().number(1)
    top = max((weight.bit_length() for _, weight in terms), default=0)
    for shift in range((top - 1) // window * window, -1, -window) if top else ():
        for _ in range(window):
            result = result * result % square
        for table, weight in terms:
            digit = weight >> shift & mask
            if digit:
                result = result * table[digit] % square
    return result
