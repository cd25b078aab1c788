"""Helpers for the tests of queries about private data."""

from __future__ import annotations

import pytest
import torch

from syft.dp.queries.estimators import QUESTIONS

AGES = torch.arange(0.0, 100.0)
MANY = 1e4  # the largest epsilon there is: it hides next to nothing, and a count is off by one once in e^10000 answers


def near(value, moved, parts=1):
    """Return what answers with Laplace noise at an epsilon of MANY equal: one in e^40 of them lies further away.

    Args:
        value: the answer without noise.
        moved: how far one row can move it.
        parts: how many columns share epsilon.
    """
    return pytest.approx(value, rel=0, abs=40 * moved * parts / MANY)


def settled(kind, **given):
    """Return all settings of a question, those that are not given at their defaults."""
    defaults = {"where": None, "column": None, "mechanism": "laplace", "delta": None, "candidates": 64}
    return {name: given.get(name, defaults.get(name)) for name in QUESTIONS[kind].names}
