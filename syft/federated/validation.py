"""Validation of numeric settings and of the vectors of strategies."""

from __future__ import annotations

import math
import numbers
from typing import Any

import torch

from syft.exceptions import FederatedError, TrainingError


def real(owner: str, name: str, value: Any, low: float = -math.inf, high: float = math.inf, ends: str = "()") -> float:
    """Return a setting as a float, or raise TrainingError.

    Args:
        owner: the owner of the setting, for the error.
        name: its name.
        value: the given value.
        low: the lower bound.
        high: the upper bound; infinity itself is never allowed.
        ends: whether the bounds are inclusive: "[" or "(", then "]" or ")".
    """
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    found = float(value) if is_number else math.nan
    above = found >= low if ends[0] == "[" else found > low
    below = found <= high if ends[1] == "]" else found < high
    if not (math.isfinite(found) and above and below):
        raise TrainingError(f"{owner}: {name} must be a number {_span(low, high, ends)}, got {_shown(value)}.")
    return found


def whole(owner: str, name: str, value: object, low: int) -> int:
    """Return a setting as an int with a lower bound, or raise TrainingError."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < low:
        raise TrainingError(f"{owner}: {name} must be an integer of at least {low}, got {_shown(value)}.")
    return int(value)


def flag(owner: str, name: str, value: object) -> bool:
    """Return a boolean setting, or raise TrainingError."""
    if type(value) is not bool:
        raise TrainingError(f"{owner}: {name} must be True or False, got {_shown(value)}.")
    return value


def saved_vector(owner: str, name: str, value: Any) -> torch.Tensor | None:
    """Return a vector of a strategy's saved state in float64, or raise; None if there was none."""
    if value is None:
        return None
    is_vector = isinstance(value, torch.Tensor) and value.dim() == 1 and value.dtype.is_floating_point
    if not is_vector or not bool(torch.isfinite(value).all()):
        raise FederatedError(f"The checkpoint can't be used: {name} of {owner} must be a vector of finite numbers.")
    return torch.as_tensor(value).detach().to(torch.float64, copy=True)


def same_size(owner: str, vector: torch.Tensor | None, size: int) -> torch.Tensor:
    """Return a strategy's stored vector, or zeros; raises if it belongs to a model of another size."""
    if vector is None:
        return torch.zeros(size, dtype=torch.float64)
    if vector.numel() != size:
        raise FederatedError(
            f"This {owner} was used with a model of {vector.numel()} parameters, but this one has {size}. "
            f"Make a new {owner} for each run."
        )
    return vector


def check_state(owner: str, given: Any, state: torch.Tensor) -> None:
    """Raise if the next state returned by a strategy is invalid."""
    is_vector = isinstance(given, torch.Tensor) and given.dtype.is_floating_point
    if not is_vector or given.shape != state.shape:
        shown = f"one of shape {tuple(given.shape)}" if is_vector else f"a {type(given).__name__}"
        raise TrainingError(
            f"{owner} must return the next state of the model, a vector of {len(state)} numbers such as state + "
            f"total.update, got {shown}."
        )


# A larger number in an update or in a strategy's state indicates an error.
LARGEST = 1e30


def bounded(owner: str, vector: torch.Tensor) -> torch.Tensor:
    """Return a vector that a strategy is about to use or store; raises if it is not finite, or too large.

    Called before a strategy changes: one round must not spoil all later ones.
    """
    if not bool((vector.abs() <= LARGEST).all()):  # true for NaN too
        raise FederatedError(
            f"The sum of the clients' results is not finite, or would move {owner} by more than {LARGEST:g}, so the "
            "round does not count. A robust strategy, such as FedMedian, ignores single clients like that."
        )
    return vector


def _span(low: float, high: float, ends: str) -> str:
    lower = f"{'of at least' if ends[0] == '[' else 'above'} {low:g}"
    upper = f"{'up to' if ends[1] == ']' else 'below'} {high:g}"
    parts = [text for text, bound in ((lower, low), (upper, high)) if math.isfinite(bound)]
    return " and ".join(parts) or "that is finite"


def _shown(value: object) -> str:
    return f"{value!r:.40}" if isinstance(value, numbers.Number | str | None) else f"a {type(value).__name__}"
