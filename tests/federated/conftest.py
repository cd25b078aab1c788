"""Fixes the random noise and masks, so that results are repeatable."""

from __future__ import annotations

from tests.steady import same_words as same_words
