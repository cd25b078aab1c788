"""Fixes the random rounding of shares, so that results are repeatable."""

from __future__ import annotations

from tests.helpers.fixed_randomness import same_words as same_words
