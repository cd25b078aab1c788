"""Matches the arguments of a call to the inputs of a program."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

import torch

from syft._suggestions import did_you_mean
from syft.core.trees import iter_tensors
from syft.exceptions import PlanMismatchError
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.plan.program import Argument
from syft.tensors.placeholder import PlaceHolder


def example_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of a tensor to record with; zeros of the same shape for a remote tensor."""
    if isinstance(tensor, SyftTensor):
        return torch.zeros(tensor.shape, dtype=tensor.dtype).requires_grad_(tensor.requires_grad)
    copied = tensor.detach().clone()
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(copied, requires_grad=tensor.requires_grad)
    return copied.requires_grad_(tensor.requires_grad)


def describe_arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], skip_last: bool
) -> list[tuple[str | None, Any, bool, bool]]:
    """Return (name, value, by name only, optional) of each argument with defaults; not of the state, the last one.

    A default that is a module, as in `def forward(x, torch=torch)`, is no argument of the plan; those after it are
    passed by name.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        rows: list[tuple[str | None, Any, bool, bool]] = [(None, value, False, False) for value in args]
        return rows + [(name, value, True, False) for name, value in kwargs.items()]
    signature = inspect.Signature(parameters[:-1] if skip_last and parameters else parameters)
    bound = signature.bind(*args, **kwargs)
    passed = set(bound.arguments)
    bound.apply_defaults()
    rows, by_name = [], False
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            rows += [(None, item, False, False) for item in value]
        elif kind is inspect.Parameter.VAR_KEYWORD:
            rows += [(key, item, True, False) for key, item in value.items()]
        elif name not in passed and isinstance(value, types.ModuleType):
            by_name = True
        else:
            rows.append((name, value, by_name or kind is inspect.Parameter.KEYWORD_ONLY, name not in passed))
    return rows


def match(name: str, arguments: tuple[Argument, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the tensors of a call in the order of the program's inputs, or raise."""
    positional = [argument for argument in arguments if not argument.by_name]
    if len(args) > len(positional):
        raise TypeError(f"The plan {name!r} takes {len(positional)} arguments, got {len(args)}.")
    remaining = dict(kwargs)
    unknown = sorted(remaining.keys() - {argument.name for argument in arguments})
    if unknown:
        hint = did_you_mean(unknown[0], [argument.name for argument in arguments])
        raise TypeError(f"The plan {name!r} has no argument {', '.join(unknown)}.{hint}")
    inputs: list[Any] = []
    for number, argument in enumerate(arguments):
        label = argument.name or f"number {number}"
        if not argument.by_name and number < len(args):
            if argument.name in remaining:
                raise TypeError(f"The plan {name!r} got two values for the argument {label}.")
            value = args[number]
        elif argument.name in remaining:
            value = remaining.pop(str(argument.name))
        elif argument.optional:
            value = argument.pattern
            if next(iter_tensors(value), None) is not None:
                raise TypeError(f"The plan {name!r} needs the argument {label}.")
        else:
            raise TypeError(f"The plan {name!r} needs the argument {label}.")
        _match(f"the argument {label} of the plan {name!r}", argument.pattern, value, inputs)
    return inputs


def _match(label: str, pattern: object, value: object, inputs: list[Any]) -> None:
    if isinstance(pattern, PlaceHolder):
        if not isinstance(value, torch.Tensor):
            raise PlanMismatchError(
                f"A tensor is needed for {label}, as when it was built, got a {type(value).__name__}. "
                "Make it one with torch.tensor(value)."
            )
        inputs.append(value)
    elif isinstance(pattern, tuple | list):
        if not isinstance(value, tuple | list) or len(value) != len(pattern):
            raise PlanMismatchError(f"{label} was a sequence of {len(pattern)} when the plan was built.")
        for part, item in zip(pattern, value, strict=True):
            _match(label, part, item, inputs)
    elif isinstance(pattern, dict):
        if not isinstance(value, dict) or value.keys() != pattern.keys():
            raise PlanMismatchError(
                f"{label} was a dictionary with the keys {sorted(pattern)} when the plan was built."
            )
        for key, part in pattern.items():
            _match(f"{label}, key {key!r},", part, value[key], inputs)
    elif isinstance(value, torch.Tensor) or type(value) is not type(pattern) or value != pattern:
        number = type(pattern) in (int, float)
        raise PlanMismatchError(
            f"The {type(pattern).__name__} passed for {label} is not the one of the build, which is part of "
            "the plan. Build another plan"
            + (", or pass a tensor at build and at each call to vary it." if number else ".")
        )
