"""The closed table of calls that may travel: wire name <-> function.

Its source is torch's own list of overridable functions, less the names of `denylist.py`. A name
from a peer is never looked up outside the table.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import get_testing_overrides, resolve_name

from syft.core.dispatch import resolve
from syft.exceptions import CommandNotAllowedError
from syft.hook.denylist import REASONS, REFUSED

Function = Callable[..., Any]
_Tensor: Any = torch.Tensor

# Overridable calls that torch's list leaves out.
_EXTRA: dict[str, Function] = {
    name: resolve(name)
    for name in """
        torch.autograd.backward torch.autograd.grad
        torch.Tensor.grad.__set__ torch.Tensor.data.__set__ torch.Tensor.requires_grad.__set__
        torch.Tensor.stride torch.Tensor.unflatten torch.Tensor.set_
        torch.Tensor.new_empty torch.Tensor.new_zeros torch.Tensor.new_ones torch.Tensor.new_full
        torch.Tensor.new_tensor
        torch.rand_like torch.randn_like torch.randint_like
        torch._is_all_true torch._is_any_true torch._weight_norm torch._VF.meshgrid
        torch.relu_ torch.celu_ torch.selu_ torch.rrelu_ torch.threshold_
        torch.dropout_ torch.alpha_dropout_ torch.feature_dropout_
    """.split()
}
# Makers of new tensors, for worker.remote.torch.<name>(...).
CONSTRUCTORS: dict[str, Function] = {
    f"torch.{name}": getattr(torch, name)
    for name in (
        "tensor rand zeros randn randint ones eye arange linspace logspace full empty randperm as_tensor normal"
    ).split()
}
_commands: dict[str, Function] = {}
# Uninitialized memory may hold data of others; a worker returns zeros instead.
_ZEROED = {
    "torch.empty_like": torch.zeros_like,
    "torch.Tensor.new_empty": _Tensor.new_zeros,
    "torch.empty": torch.zeros,
}


def register_command(name: str, function: Function) -> None:
    """Add a call of this library to those that a worker runs for clients."""
    if name in _commands:
        raise ValueError(f"the command {name!r} is already registered")
    _commands[name] = function


@functools.cache
def _tables() -> tuple[dict[str, Function], dict[Function, str]]:
    """Build both directions of the table, once."""
    by_name: dict[str, Function] = dict(_EXTRA)
    by_function: dict[Function, str] = {function: name for name, function in _EXTRA.items()}
    for function in get_testing_overrides():
        name = resolve_name(function)
        if name:
            by_name.setdefault(name, function)
            by_function[function] = name
    return by_name, by_function


def overridable() -> dict[str, Function]:
    """Return every overridable call of torch by name, with the refused ones."""
    return dict(_tables()[0])


def allowed() -> dict[str, Function]:
    """Return every torch call that a worker runs for clients on its tensors."""
    return {name: function for name, function in _tables()[0].items() if name not in REFUSED}


@functools.cache
def name_of(function: Function) -> str:
    """Return the wire name of a function, or refuse it."""
    name = _tables()[1].get(function)
    if name is None:
        raise CommandNotAllowedError(
            resolve_name(function) or getattr(function, "__name__", str(function)),
            "it is not in the table of functions that may travel (docs/reference/remote-functions.md).",
        )
    if name in REFUSED:
        raise CommandNotAllowedError(name, REASONS[REFUSED[name]])
    return name


@functools.cache
def function_of(name: str) -> Function:
    """Return the function of a wire name, or refuse it."""
    if not isinstance(name, str):
        raise CommandNotAllowedError("A call without a name")
    if name in REFUSED:
        raise CommandNotAllowedError(name, REASONS[REFUSED[name]])
    function = _commands.get(name) or _ZEROED.get(name) or CONSTRUCTORS.get(name) or _tables()[0].get(name)
    if function is None:
        raise CommandNotAllowedError(repr(name[:100]), "it is not one of the calls in the table of allowed functions.")
    return function
