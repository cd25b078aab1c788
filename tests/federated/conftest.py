"""Noise and masks are random: here it is the same each time."""

from __future__ import annotations

from tests.steady import same_words as same_words
