"""Names for the tensors that a function brings from outside: those its variables have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from syft.tensors.placeholder import PlaceHolder


def name_captured(function: Callable[..., Any], state: Iterable[PlaceHolder]) -> None:
    """Name the captured tensors of a state after the variables of the function, and tell buffers from constants."""
    unnamed = [p for p in state if p.description is None and "#captured" in p.tags]
    if not unnamed:
        return
    found = {id(tensor): (name, kind) for name, tensor, kind in _tensors_of(function)}
    for placeholder in unnamed:
        name, kind = found.get(id(placeholder.child), (None, None))
        if name is not None and kind is not None:
            placeholder.description = name
            if "#parameter" not in placeholder.tags:
                placeholder.tags = (placeholder.tags - {"#constant"}) | {kind}


def _tensors_of(function: Callable[..., Any]) -> Iterator[tuple[str, torch.Tensor, str]]:
    try:
        variables = inspect.getclosurevars(inspect.unwrap(function))
    except TypeError:  # something callable that is no function of Python
        return
    for name, value in {**variables.globals, **variables.nonlocals}.items():
        if isinstance(value, torch.Tensor):
            yield name, value, "#constant"
        elif isinstance(value, torch.nn.Module):
            for inner, tensor in value.named_buffers():
                yield f"{name}.{inner}", tensor, "#buffer"
            for inner, tensor in value.named_parameters():
                yield f"{name}.{inner}", tensor, "#parameter"
