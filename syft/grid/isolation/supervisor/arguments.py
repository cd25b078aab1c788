"""Argument checks for the calls of child processes.

A call that fails its checks is refused before its handler runs, so that handlers get the types of their signatures.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from syft.core.id_provider import is_id
from syft.exceptions import SerdeError
from syft.workers.transport.handshake import TOKEN_BYTES

Check: TypeAlias = Callable[[object], bool]
_MAX_TEXT = 1 << 16


def object_id(value: object) -> bool:
    """Return whether a value is the id of an object."""
    return type(value) in (int, str) and is_id(value)


def text(value: object) -> bool:
    """Return whether a value is a string of bounded length."""
    return type(value) is str and len(value) <= _MAX_TEXT


def number(value: object) -> bool:
    """Return whether a value is a number; whole numbers are bounded so that they convert to float."""
    return type(value) is float or (type(value) is int and -(2**62) < value < 2**62)


def count(value: object) -> bool:
    """Return whether a value is a count or a size."""
    return type(value) is int and 0 <= value < 2**62


def flag(value: object) -> bool:
    """Return whether a value is True or False."""
    return type(value) is bool


def fingerprint(value: object) -> bool:
    """Return whether a value is the fingerprint of a token."""
    return type(value) is bytes and len(value) == 32


def secret(value: object) -> bool:
    """Return whether a value is a token of another node."""
    return type(value) is bytes and len(value) == TOKEN_BYTES


def settings(value: object) -> bool:
    """Return whether a value is a dict of named arguments."""
    return type(value) is dict and all(type(key) is str and len(key) <= 100 for key in value)


def row(value: object) -> bool:
    """Return whether a value is a tuple, which the handler checks itself."""
    return type(value) is tuple


def optional(check: Check) -> Check:
    """Return a check that also accepts None."""
    return lambda value: value is None or check(value)


def several(check: Check) -> Check:
    """Return a check for a tuple of values that pass another check."""
    return lambda value: type(value) is tuple and all(map(check, value))


def either(*checks: Check) -> Check:
    """Return a check that accepts values which pass one of several checks."""
    return lambda value: any(check(value) for check in checks)


def arity_of(function: Callable[..., Any], given: int) -> tuple[int, float]:
    """Return the minimum and maximum number of arguments of a handler, without the first ones from the supervisor."""
    parameters = list(inspect.signature(function).parameters.values())[given:]
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return sum(p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in parameters), math.inf
    return sum(parameter.default is parameter.empty for parameter in parameters), len(parameters)


def check_arguments(name: str, args: tuple[Any, ...], arity: tuple[int, float], checks: Sequence[Check]) -> None:
    """Raise SerdeError if the arguments of a call fail their checks.

    Args:
        name: the call.
        args: its arguments.
        arity: the minimum and maximum number of arguments.
        checks: one for each argument; the last one also for all further arguments.
    """
    if not arity[0] <= len(args) <= arity[1]:
        raise SerdeError(f"The call {name!r} does not take {len(args)} arguments.")
    for index, value in enumerate(args):
        if checks and not checks[min(index, len(checks) - 1)](value):
            raise SerdeError(f"Argument {index} of the call {name!r} has the wrong type or size.")
