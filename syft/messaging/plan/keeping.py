"""Keep what a recording changes while it runs, so that building a plan leaves no trace."""

from __future__ import annotations

import copy
from typing import Any

import torch

from syft.hook.syft_tensor import SyftTensor
from syft.messaging.plan.optimizers import settings_of


class Keeper:
    """The tensors, gradients, optimizers and random numbers from before a recording."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[torch.Tensor, bool, torch.Tensor, torch.Tensor, Any, Any]] = {}
        self._optimizers: dict[int, tuple[Any, Any, Any]] = {}
        self._random = torch.get_rng_state()
        self.seed = torch.initial_seed()

    def keep(self, tensor: Any) -> None:
        """Remember a tensor of the state, before a call may change it."""
        if id(tensor) in self._kept or isinstance(tensor, SyftTensor):
            return
        with torch.no_grad():
            grad = tensor.grad
            copied = None if grad is None else grad.detach().clone()
            self._kept[id(tensor)] = (tensor, tensor.requires_grad, tensor.data, tensor.detach().clone(), grad, copied)

    def note_optimizer(self, optimizer: Any) -> None:
        """Remember the state of an optimizer."""
        if id(optimizer) not in self._optimizers:
            state = {key: copy.deepcopy(value) for key, value in optimizer.state.items()}
            self._optimizers[id(optimizer)] = (optimizer, state, settings_of(optimizer))

    def settings_changed(self) -> bool:
        """Say whether an optimizer has other settings than at its first step, as schedulers do."""
        return any(settings_of(optimizer) != settings for optimizer, _, settings in self._optimizers.values())

    def restore(self) -> None:
        """Put everything back."""
        with torch.no_grad():
            # Backwards: one that was kept later may be a view of one that had changed by then.
            for tensor, requires_grad, data, values, grad, copied in reversed(self._kept.values()):
                if tensor.data_ptr() != data.data_ptr() or tensor.shape != data.shape:
                    tensor.data = data
                if not _same(data, values):
                    data.copy_(values)
                if tensor.requires_grad is not requires_grad:
                    tensor.requires_grad_(requires_grad)
                if grad is not None and not _same(grad, copied):
                    grad.copy_(copied)
                if tensor.grad is not grad:
                    tensor.grad = grad
        for optimizer, state, settings in self._optimizers.values():
            optimizer.state.clear()
            optimizer.state.update(state)
            for group, kept in zip(optimizer.param_groups, settings, strict=True):
                group.update(kept)
        torch.set_rng_state(self._random)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)
