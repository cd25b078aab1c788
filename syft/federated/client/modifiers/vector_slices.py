"""Flat vectors of a round's training, cut into pieces for the parameters that are trained."""

from __future__ import annotations

import torch

from syft.exceptions import TrainingError
from syft.federated.client.local_training import LocalRound

Pairs = list[tuple[torch.Tensor, torch.Tensor]]


def pieces(work: LocalRound, vector: torch.Tensor) -> Pairs:
    """Return each parameter that is trained with its piece of a vector, in its shape and dtype.

    Args:
        work: the training.
        vector: a flat vector; its first numbers are for the parameters.
    """
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
    """Add to the gradient of a parameter; one that a batch did not use has a gradient of zero."""
    if parameter.grad is None:
        parameter.grad = addend.clone()
    else:
        parameter.grad.add_(addend)


def require_all_steps(work: LocalRound, seen: int, what: str) -> None:
    """Raise if steps were made that a term did not act in."""
    if seen != work.steps:
        raise TrainingError(
            f"{what} changes the gradients of each step, and here something else makes the steps. Use FedAvg with it."
        )
