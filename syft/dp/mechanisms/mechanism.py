"""Mechanism: the base class of mechanisms, and the validation of their arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from syft.core.generator import Generator
from syft.display.facts import FactList, Shown
from syft.dp.accounting.events import Event, Pure, checked, finite


class Mechanism(Shown):
    """Releases values with a stated privacy loss. Each call of `release` costs one `event`.

    The caller guarantees the sensitivity: the largest change of the value when one record is replaced by another.
    Clip the records so that it holds; a mechanism cannot check it.
    """

    epsilon: float | None
    delta: float | None
    sensitivity: float

    def __init__(self, epsilon: float | None, delta: float | None, sensitivity: float) -> None:
        self.epsilon = None if epsilon is None else finite("epsilon", epsilon)
        self.delta = None if delta is None else checked("delta", delta, 0, 1, closed=True)
        self.sensitivity = finite("sensitivity", sensitivity)

    @property
    def event(self) -> Event:
        """The privacy loss of one release, for an `Accountant` or a ledger; pure by default."""
        if self.epsilon is None:
            raise NotImplementedError(f"{type(self).__name__}: a mechanism without epsilon must implement event")
        return Pure(self.epsilon)

    def release(self, value: object, *, generator: Generator | None = None) -> Any:
        """Return the private result. Costs one `event`."""
        raise NotImplementedError(f"{type(self).__name__}: a mechanism must implement release")

    def _facts(self) -> FactList:
        return (("epsilon", self.epsilon), ("delta", self.delta), ("sensitivity", self.sensitivity))

    def __repr__(self) -> str:
        parts = [("epsilon", self.epsilon), ("delta", self.delta), ("sensitivity", self.sensitivity)]
        return f"{type(self).__name__}({', '.join(f'{name}={value:g}' for name, value in parts if value)})"


def with_noise(value: object, add: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Add noise to a number (returns a float) or to a tensor or array (returns a tensor)."""
    if isinstance(value, torch.Tensor):
        return add(value)
    if isinstance(value, (bool, int, float)):
        whole = isinstance(value, int) and abs(value) < 2**63
        return float(add(torch.tensor(value, dtype=torch.int64 if whole else torch.float64)))
    try:
        tensor = torch.as_tensor(np.asarray(value))  # through numpy: torch would round a list to float32
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"release() needs numbers or tensors, got {type(value).__name__}") from None
    return add(tensor)


def gaps_of(scores: object) -> torch.Tensor:
    """Return the distance of each score to the best one: 1-D, at least one."""
    try:
        tensor = scores if isinstance(scores, torch.Tensor) else torch.as_tensor(np.asarray(scores))
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"scores must be a list or a 1-D tensor of numbers, got {type(scores).__name__}") from None
    if tensor.dim() != 1 or not len(tensor) or tensor.is_complex():
        raise ValueError(f"scores must be one number for each candidate, in one dimension, got {tuple(tensor.shape)}")
    if not bool(torch.isfinite(tensor).all()):
        raise ValueError("scores must be finite. Replace nan and infinite scores, and omit invalid candidates")
    tensor = tensor.detach().cpu().to(torch.float64 if tensor.is_floating_point() else torch.int64)
    best, least = tensor.max(), tensor.min()
    if best.item() - least.item() >= (math.inf if tensor.is_floating_point() else 2**63):
        raise ValueError("the scores are too far apart to be compared")
    return best - tensor
