"""Slices of flat vectors for the trained parameters."""

from __future__ import annotations

import torch

from syft.exceptions import TrainingError
from syft.federated.client.local_training import LocalRound

Pairs = list[tuple[torch.Tensor, torch.Tensor]]


def pieces(work: LocalRound, vector: torch.Tensor) -> Pairs:
    """Return each trained parameter with its slice of a vector, in its shape and dtype.

    Args:
        work: the local round.
        vector: a flat vector that starts with the parameters.
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
