"""Keep the state of an optimizer (momentum, Adam's moments) where its parameters are.

Optimizers need no rewriting: their arithmetic runs on pointers like any other. Only when a model has moved does
its state have to follow, and that is checked before each step, for the price of one comparison until then.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from syft.exceptions import SyftError
from syft.hook import base

# Filled by the layers above: other ways in which state follows its parameters.
followers: list[Any] = []
# Becomes true with the first parameter that moves; plain training never pays for the check below.
_moved: list[bool] = [False]
_HOME = "_syft_home"


def note_movement() -> None:
    """Say that parameters have moved."""
    _moved[0] = True


def keep_at(optimizer: torch.optim.Optimizer, worker_id: object) -> None:
    """Let an optimizer step at one worker, or here, but at no other worker: its state is of the data there."""
    optimizer.__dict__[_HOME] = worker_id


class OptimizerMethods:
    """A stand-in for Optimizer: its public names are copied onto the real one."""

    def follow_parameters(self) -> Any:
        """Bring the state to where the parameters are, as the next `step()` would; for saving after `model.get()`."""
        for follow in (follow_parameters, *followers):
            follow(self, (), {})
        return self


def _location(tensor: Any) -> Any:
    return tensor.location if "child" in tensor.__dict__ else None


def follow_parameters(optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
    """Bring each parameter's state to where the parameter is."""
    if not _moved[0]:
        return
    if _HOME in optimizer.__dict__:
        _check_home(optimizer, optimizer.__dict__[_HOME])
    for parameter, state in optimizer.state.items():
        _bring(parameter, state)


def _check_home(optimizer: torch.optim.Optimizer, home: object) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            place = getattr(_location(parameter), "id", home)
            if place != home:
                raise SyftError(
                    f"This optimizer is for {home!r}, and the model is at {place!r}: what it remembers of the data at "
                    f"{home!r} would go there. Take the one of {place!r}: optims.get_optim(model.location.id)."
                )


def _bring(parameter: Any, state: dict[Any, Any]) -> None:
    target = _location(parameter)
    for name, value in state.items():
        # 0-dim entries are step counters, which every optimizer reads as numbers.
        if isinstance(value, torch.Tensor) and value.dim() and _location(value) is not target:
            state[name] = _brought(value, target)


def _brought(value: Any, target: Any) -> Any:
    if _location(value) is None:
        return value.send(target)
    return value.get() if target is None else value.move(target)


base.optimizer_methods[:] = [OptimizerMethods]
base.optimizer_hooks[:] = [lambda: register_optimizer_step_pre_hook(follow_parameters)]
