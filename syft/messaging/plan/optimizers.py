"""Optimizers in plans: torch optimizers over the state of the plan."""

from __future__ import annotations

from typing import Any

import torch

from syft.exceptions import MalformedPlanError, PlanBuildError, PlanMismatchError
from syft.messaging.plan.state import fingerprint_of

KINDS: dict[str, type[torch.optim.Optimizer]] = {
    name: getattr(torch.optim, name)
    for name in "SGD Adam AdamW Adamax NAdam RAdam Adagrad Adadelta RMSprop Rprop ASGD".split()
}
_NUMBERS = (bool, int, float, type(None))
# Options of torch's implementation; some of them would skip its checks of sizes.
_OMITTED = frozenset({"params", "foreach", "fused", "capturable", "differentiable", "param_names"})


def settings_of(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Return the settings of each group of an optimizer, such as its learning rate."""
    return [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]


def fingerprint(optimizer: torch.optim.Optimizer) -> list[Any]:
    """Return a value that differs whenever the settings or the state of an optimizer differ."""
    memory = [(key, fingerprint_of(value)) for entry in optimizer.state.values() for key, value in entry.items()]
    return [settings_of(optimizer), memory]


def to_row(optimizer: torch.optim.Optimizer, state: list[Any]) -> tuple[Any, ...]:
    """Return the kind of an optimizer, its groups (with numbers for parameters) and its state."""
    kind = type(optimizer).__name__
    if KINDS.get(kind) is not type(optimizer):
        names = ", ".join(sorted(KINDS))
        raise PlanBuildError(f"A step of {kind}", hint=f"These optimizers can be part of a plan: {names}.")
    numbers = {id(tensor): number for number, tensor in enumerate(state)}
    groups = []
    for group in optimizer.param_groups:
        if not all(id(parameter) in numbers for parameter in group["params"]):
            raise PlanMismatchError(
                f"A {kind} of the plan has a parameter that is not in its state. Make an optimizer of the "
                "current parameters of the model, and build the plan again."
            )
        settings = {key: _setting(kind, key, value) for key, value in group.items() if key not in _OMITTED}
        groups.append((tuple(numbers[id(parameter)] for parameter in group["params"]), settings))
    memory = {str(numbers[id(p)]): dict(entry) for p, entry in optimizer.state.items() if id(p) in numbers}
    return (kind, tuple(groups), memory)


def _setting(kind: str, key: str, value: object) -> Any:
    parts = value if isinstance(value, tuple | list) else (value,)
    if not all(type(part) in _NUMBERS for part in parts):
        raise PlanBuildError(
            f"{kind} with {key} of type {type(value).__name__}",
            hint=f"Use plain numbers, or set it in the function: optimizer.param_groups[0][{key!r}] = argument.",
        )
    return tuple(value) if isinstance(value, tuple | list) else value


def step(optimizer: torch.optim.Optimizer, settings: tuple[tuple[int, str, Any], ...]) -> None:
    """Run a step, with settings that the plan computed."""
    for number, key, value in settings:
        groups = optimizer.param_groups
        if not 0 <= number < len(groups) or key not in groups[number] or key in _OMITTED:
            raise MalformedPlanError("A plan sets an option that its optimizer does not have.")
        groups[number][key] = value.item() if isinstance(value, torch.Tensor) else value
    optimizer.step()


def from_row(row: Any, state: list[Any]) -> Any:
    """Rebuild an untrusted optimizer over the tensors of a state."""
    kind, groups, memory = row
    cls = KINDS.get(kind) if type(kind) is str else None
    if cls is None or type(groups) is not tuple or not groups or type(memory) is not dict:
        raise MalformedPlanError("An optimizer of a plan has a known kind, groups and a state.")
    try:
        optimizer = cls([_group(group, state) for group in groups])  # type: ignore[call-arg]
    except (TypeError, ValueError) as error:
        raise MalformedPlanError(
            f"The settings of the plan's {kind} are refused by torch: {str(error)[:200]}"
        ) from None
    for number, entry in memory.items():
        parameter = state[_index(int(number) if type(number) is str and number.isdecimal() else None, state)]
        optimizer.state[parameter] = _memory(entry, parameter)
    return optimizer


def _group(group: Any, state: list[Any]) -> dict[str, Any]:
    numbers, settings = group
    if type(numbers) is not tuple or type(settings) is not dict or _OMITTED & settings.keys():
        raise MalformedPlanError("A group of a plan's optimizer has parameters and settings.")
    for value in settings.values():
        if not all(type(part) in _NUMBERS for part in (value if type(value) is tuple else (value,))):
            raise MalformedPlanError("The settings of a plan's optimizer must be numbers.")
    return {"params": [state[_index(number, state)] for number in numbers], **settings}


def _index(number: object, state: list[Any]) -> int:
    if type(number) is not int or not 0 <= number < len(state):
        raise MalformedPlanError("A plan's optimizer refers to a tensor that the state does not have.")
    return number


def _memory(entry: object, parameter: Any) -> dict[str, Any]:
    """Check the state of a parameter: numbers, and tensors of its shape."""
    if type(entry) is not dict:
        raise MalformedPlanError("The state of a plan's optimizer is numbers and tensors by name.")
    for key, value in entry.items():
        fits = type(value) in _NUMBERS or (
            type(value) is torch.Tensor
            and (value.dim() == 0 or (value.shape == parameter.shape and value.is_floating_point()))
        )
        if type(key) is not str or not fits:
            raise MalformedPlanError(
                "The state of a plan's optimizer is numbers and tensors of its parameters' shapes."
            )
    return dict(entry)
