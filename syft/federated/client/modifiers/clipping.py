"""Clipping: limits the norm of a client's update, so that no client changes the model by more."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from syft.exceptions import TrainingError
from syft.federated.client.modifiers.modifier import Modifier

if TYPE_CHECKING:
    from syft.federated.client.local_round import LocalRound

MIN_CLIP, MAX_CLIP = 1e-9, 1e9
# Keeps a clipped update below its bound despite rounding.
_MARGIN = 1.0 - 2.0**-20


class Clipping(Modifier):
    """Clip the update over parameters and buffers together; the client counts once, regardless of its samples.

    Args:
        settings: `clip`, the largest norm.
    """

    name: ClassVar[str] = "clipping"
    order: ClassVar[int] = 50

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        clip: Any = settings.get("clip")
        if len(settings) != 1 or type(clip) not in (int, float) or not MIN_CLIP < clip <= MAX_CLIP:
            raise TrainingError(f"clip must be a number above {MIN_CLIP:g} and at most {MAX_CLIP:g}.")
        self.clip = float(clip)

    def finish(self, work: LocalRound) -> None:
        """Clip the update and drop the loss, which has no bound."""
        work.update = clipped_update(work.update, self.clip)
        work.samples = 1
        work.answer["samples"] = 1
        work.answer.pop("metrics", None)


def clipped_update(update: torch.Tensor, clip: float) -> torch.Tensor:
    """Return an update clipped to the norm `clip`; zeros if it is not finite."""
    exact = update.detach().to(torch.float64)
    norm = float(exact.norm())
    if not math.isfinite(norm):
        return torch.zeros_like(update)
    if norm <= clip:
        return update
    return (exact * (clip * _MARGIN / norm)).to(update.dtype)
