"""Bernoulli variables with exactly the stated probability, vectorized.

A variable that is true with probability exp(-x) is drawn by comparing 64 random bits with exp(-x) in floating point.
Only if rounding could matter, about once in ten billion draws, more bits are drawn, and the comparison uses as many
decimal digits as it needs.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from syft.core.generator import Generator

__all__ = ["bernoulli_exp", "uniform_below", "whole_exponentials"]

Words: TypeAlias = NDArray[np.int64]

# The distance of 64 random bits and a probability above which floating point can compare them: relative (its own
# error is below 1e-13), and in units of the last bit.
_CLOSE = 1e-10
_CLOSE_BITS = 4.0 / 2**64


class _Bits:
    """A number between 0 and 1 whose bits are drawn when a comparison needs them."""

    def __init__(self, word: int, generator: Generator) -> None:
        self._bits = word & (2**64 - 1)
        self._count = 64
        self._generator = generator

    def is_below_exp(self, x: Fraction) -> bool:
        """Return whether this number is below exp(-x)."""
        digits = 40
        if x == 0:
            return True
        while self._bits == 0 or x < self._count:  # else exp(-x) < 2^-count, which is below this number
            if x >= self._count:  # all bits are zero so far: draw more before computing a tiny threshold
                self._extend()
                continue
            with decimal.localcontext(decimal.Context(prec=digits, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)) as c:
                threshold = c.exp(-decimal.Decimal(x.numerator) / decimal.Decimal(x.denominator))
                error = threshold * decimal.Decimal(10) ** (10 - digits) * (1 + abs(int(x)))
                low, high = Fraction(threshold - error), Fraction(threshold + error)
            if Fraction(self._bits + 1, 2**self._count) <= low:
                return True
            if Fraction(self._bits, 2**self._count) >= high:
                return False
            self._extend()
            digits += 20
        return False

    def _extend(self) -> None:
        self._bits = (self._bits << 64) | int.from_bytes(self._generator.bytes(8), "little")
        self._count += 64


def bernoulli_exp(
    x: NDArray[np.float64], exactly: Callable[[int], Fraction], generator: Generator
) -> NDArray[np.bool_]:
    """Draw one variable for each element of `x`, true with probability exp(-x), exactly.

    Args:
        x: non-negative numbers, each within a relative 1e-12 (or an absolute 1e-12) of the exact one.
        exactly: returns the exact number for an index.
        generator: the source of bits.
    """
    words = _words(generator, len(x))
    uniform = (words.view(np.uint64) + 0.5) * 2.0**-64
    threshold = np.exp(-x)
    heads = uniform < threshold
    margin = threshold * (_CLOSE * (1 + np.minimum(x, 1e3))) + _CLOSE_BITS  # beyond 1e3 the threshold is zero
    for index in np.flatnonzero(np.abs(uniform - threshold) <= margin):
        heads[index] = _Bits(int(words[index]), generator).is_below_exp(exactly(int(index)))
    return heads


def uniform_below(limit: int, count: int, generator: Generator) -> tuple[Words, NDArray[np.bool_]]:
    """Draw integers, uniform from 0 to below `limit` (at most 2^55), and a fair random sign for each."""
    mask = (1 << (limit - 1).bit_length()) - 1
    words = _words(generator, count)
    values, coins = words & mask, words < 0
    wrong = np.flatnonzero(values >= limit)
    while len(wrong):
        words = _words(generator, len(wrong))
        values[wrong], coins[wrong] = words & mask, words < 0
        wrong = wrong[values[wrong] >= limit]
    return values, coins


def _words(generator: Generator, count: int) -> Words:
    found: Words = generator.words(count).numpy()
    return found


def whole_exponentials(count: int, generator: Generator) -> Words:
    """Draw k with probability (1 - 1/e) e^-k, exactly: the integer part of an exponential variable."""
    words = _words(generator, count)
    unsigned = words.view(np.uint64)
    drawn = -np.log((unsigned + 0.5) * 2.0**-64)
    whole = np.floor(drawn)
    values: Words = whole.astype(np.int64)
    margin = _CLOSE + 2.0 / (unsigned + 1.0)
    for index in np.flatnonzero((drawn - whole < margin) | (whole + 1 - drawn < margin)):
        bits, value = _Bits(int(words[index]), generator), 0
        while bits.is_below_exp(Fraction(value + 1)):
            value += 1
        values[index] = value
    return values
