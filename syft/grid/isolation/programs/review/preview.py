"""A preview of a requested result, for the data owner only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from syft.grid.isolation.programs.review.influence import numbers_of
from syft.grid.isolation.records.call_codec import kind_of

# Results with at most this many numbers are shown whole; larger ones by statistics and a histogram.
MAX_SHOWN = 100
BINS = 20
# Maximum number of objects that are described.
MAX_OBJECTS = 20


def preview_of(objects: Sequence[object]) -> list[dict[str, Any]]:
    """Describe the first objects of a result by plain values."""
    return [_described(obj) for obj in objects[:MAX_OBJECTS]]


def _described(obj: object) -> dict[str, Any]:
    numbers = numbers_of([obj])
    found: dict[str, Any] = {"kind": kind_of(obj), "numbers": len(numbers)}
    if isinstance(obj, torch.Tensor):
        found |= {"shape": list(obj.shape), "dtype": str(obj.dtype).removeprefix("torch.")}
    if 0 < len(numbers) <= MAX_SHOWN:
        found["values"] = [_plain(value) for value in numbers.tolist()]
    elif len(numbers):
        found |= _statistics(numbers)
    return found


def _statistics(numbers: torch.Tensor) -> dict[str, Any]:
    finite = numbers[numbers.isfinite()]
    found: dict[str, Any] = {"not_finite": len(numbers) - len(finite), "distinct": len(torch.unique(numbers))}
    if len(finite):
        low, high = float(finite.min()), float(finite.max())
        found |= {"min": low, "max": high, "mean": float(finite.mean()), "std": float(finite.std(correction=0))}
        if math.isfinite(high - low):
            counts = torch.histc(finite, BINS, low, high) if high > low else torch.tensor([float(len(finite))])
            found["histogram"] = [int(count) for count in counts]
    return found


def _plain(value: float) -> float | str:
    """Return a number as JSON can hold it."""
    return value if math.isfinite(value) else str(value)
