"""StateSnapshot: undoes the changes of a recording, so that building a plan has no side effects."""

from __future__ import annotations

import copy
import secrets
import threading
from collections.abc import Iterable
from typing import Any

import torch

from syft.hook.syft_tensor import SyftTensor
from syft.messaging.plan.optimizers import settings_of

# All recordings of a process share torch's generator: the first one saves it, the last one restores it.
# In between it has a private seed, which shows whether a function sets another one.
_SEED = secrets.randbits(62)
_lock = threading.Lock()
_recordings = 0
_random = torch.empty(0)


def _begin_random() -> None:
    global _recordings, _random
    with _lock:
        if not _recordings:
            _random = torch.get_rng_state()
            torch.default_generator.manual_seed(_SEED)
        _recordings += 1


def _end_random() -> None:
    global _recordings
    with _lock:
        _recordings -= 1
        if not _recordings:
            torch.set_rng_state(_random)


def seeded() -> bool:
    """Say whether the recorded function has set a seed."""
    return torch.initial_seed() != _SEED


class StateSnapshot:
    """The tensors, gradients, optimizers and random numbers from before a recording."""

    def __init__(self) -> None:
        self._saved: dict[int, tuple[torch.Tensor, bool, torch.Tensor, torch.Tensor, Any, Any]] = {}
        self._optimizers: dict[int, tuple[Any, Any, Any]] = {}
        self._before: set[int] = set()

    def begin(self, optimizers: Iterable[Any] = ()) -> None:
        """Save the generator, and the optimizers of the function."""
        _begin_random()
        for optimizer in optimizers:
            self.save_optimizer(optimizer)
            self._before.add(id(optimizer))

    def save(self, tensor: torch.Tensor) -> None:
        """Save a tensor of the state, before a call may change it."""
        if id(tensor) in self._saved or isinstance(tensor, SyftTensor):
            return
        with torch.no_grad():
            grad = tensor.grad
            copied = None if grad is None else grad.detach().clone()
            self._saved[id(tensor)] = (tensor, tensor.requires_grad, tensor.data, tensor.detach().clone(), grad, copied)

    def save_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Save the state of an optimizer."""
        if id(optimizer) not in self._optimizers:
            state = {key: copy.deepcopy(value) for key, value in optimizer.state.items()}
            self._optimizers[id(optimizer)] = (optimizer, state, settings_of(optimizer))

    def has_optimizer(self, optimizer: torch.optim.Optimizer) -> bool:
        """Say whether an optimizer was saved before the function ran."""
        return id(optimizer) in self._before

    def settings_changed(self) -> bool:
        """Say whether numeric settings of an optimizer have changed, as by a scheduler."""
        return any(
            now[key] is not value and not isinstance(now[key], torch.Tensor) and now[key] != value
            for optimizer, _, before in self._optimizers.values()
            for now, saved in zip(settings_of(optimizer), before, strict=True)
            for key, value in saved.items()
        )

    def restore(self) -> None:
        """Restore everything."""
        try:
            self._restore()
        finally:
            _end_random()

    def _restore(self) -> None:
        with torch.no_grad():
            # Backwards: a later one may be a view of one that had changed by then.
            for tensor, requires_grad, data, values, grad, copied in reversed(self._saved.values()):
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
            for group, saved in zip(optimizer.param_groups, settings, strict=True):
                group.update(saved)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)
