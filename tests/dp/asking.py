"""What the tests of questions about private data have in common."""

from __future__ import annotations

import torch

from syft.dp.statistics import QUESTIONS

AGES = torch.arange(0.0, 100.0)
MANY = 1e4  # an epsilon that hides nothing: noise of less than a thousandth


def settled(kind, **given):
    """Return all settings of a question, those that are not given at their defaults."""
    defaults = {"where": None, "column": None, "mechanism": "laplace", "delta": None, "candidates": 64}
    return {name: given.get(name, defaults.get(name)) for name in QUESTIONS[kind].names}
