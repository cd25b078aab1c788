"""Keep the state of an optimizer (momentum, Adam's moments) where its parameters are.

Optimizers need no rewriting: their arithmetic runs on pointers like any other. Only the state of a
moved model has to follow, which is checked before each step; until then the check is one comparison.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from syft.exceptions import SyftError
from syft.hook import base

# Filled by the layers above: further functions that move state to its parameters.
followers: list[Any] = []
# True after the first movement of a parameter; plain training skips the check below.
_moved: list[bool] = [False]
_HOME = "_syft_home"


def note_movement() -> None:
    """Record that parameters have moved."""
    _moved[0] = True


def keep_at(optimizer: torch.optim.Optimizer, worker_id: object) -> None:
    """Restrict an optimizer to one worker and this process: its state depends on the data of that worker."""
    optimizer.__dict__[_HOME] = worker_id


def follow_parameters(self: torch.optim.Optimizer) -> Any:
    """Bring the state to where the parameters are, as the next `step()` would; for saving after `model.get()`."""
    for follow in (_follow, *followers):
        follow(self, (), {})
    return self


def _location(tensor: Any) -> Any:
    return tensor.location if "child" in tensor.__dict__ else None


def _follow(optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
    """Bring each parameter's state to where the parameter is."""
    if not _moved[0]:
        return
    if _HOME in optimizer.__dict__:
        _check_home(optimizer, optimizer.__dict__[_HOME])
    for parameter, state in optimizer.state.items():
        target = _location(parameter)
        for name, value in state.items():
            # 0-dim entries are step counters, which every optimizer reads as numbers.
            if isinstance(value, torch.Tensor) and value.dim() and _location(value) is not target:
                state[name] = _brought(value, target)


def _check_home(optimizer: torch.optim.Optimizer, home: object) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            place = getattr(_location(parameter), "id", home)
            if place != home:
                raise SyftError(
                    f"This optimizer is for {home!r}, and the model is at {place!r}: its state, which depends on the "
                    f"data at {home!r}, would move there. Use the optimizer of {place!r}: "
                    "optims.get_optim(model.location.id)."
                )


def _brought(value: Any, target: Any) -> Any:
    if _location(value) is None:
        return value.send(target)
    return value.get() if target is None else value.move(target)


base.optimizer_hooks[:] = [lambda: register_optimizer_step_pre_hook(_follow)]
