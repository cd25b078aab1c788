"""Modifier: a change to the training at a client, requested by the server. Modifiers are a closed table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch

from syft.exceptions import TrainingError

if TYPE_CHECKING:
    from syft.federated.client.local_round import LocalRound

MAX_ROUND = 2**53
Pairs = list[tuple[torch.Tensor, torch.Tensor]]


class Modifier:
    """A change to the training at a client.

    Args:
        settings: the server's settings. They are untrusted: a subclass validates all of them.
    """

    name: ClassVar[str]
    # Modifiers act in this order; the one that masks the update comes last.
    order: ClassVar[int] = 0

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings

    def begin(self, work: LocalRound) -> None:
        """Run before the first batch."""

    def gradients(self, work: LocalRound) -> None:
        """Run after the gradients of a batch are computed, before the optimizer's step."""

    def train(self, work: LocalRound) -> bool:
        """Replace the whole training; returns whether it did."""
        return False

    def finish(self, work: LocalRound) -> None:
        """Run after the training: may change `work.update` or `work.answer`."""


def pieces(work: LocalRound, vector: torch.Tensor) -> Pairs:
    """Return each trained parameter with its slice of a flat vector that starts with the parameters."""
    found, start = [], 0
    for tensor in work.tensors:
        if start >= work.layout.parameters:
            break
        end = start + tensor.numel()
        if tensor.requires_grad:
            found.append((tensor, vector[start:end].view(tensor.shape).to(tensor.dtype)))
        start = end
    return found


def add_to_gradient(parameter: torch.Tensor, addend: torch.Tensor) -> None:
    """Add to the gradient of a parameter. A parameter that the batch did not use has a zero gradient."""
    if parameter.grad is None:
        parameter.grad = addend.clone()
    else:
        parameter.grad.add_(addend)


def require_all_steps(work: LocalRound, seen: int, what: str) -> None:
    """Raise if a modifier did not act in every step."""
    if seen != work.steps:
        raise TrainingError(
            f"{what} changes the gradients of each step, but another modifier replaces the steps. Use FedAvg with it."
        )
