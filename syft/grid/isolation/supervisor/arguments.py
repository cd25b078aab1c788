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


def _typed(*kinds: type, fits: Callable[[Any], bool] = lambda value: True) -> Check:
    """Return a check for the exact type of a value, and a condition."""
    return lambda value: type(value) in kinds and fits(value)


object_id = _typed(int, str, fits=is_id)
text = _typed(str, fits=lambda value: len(value) <= _MAX_TEXT)
# Whole numbers are bounded so that they convert to float.
number = _typed(int, float, fits=lambda value: type(value) is float or -(2**62) < value < 2**62)
count = _typed(int, fits=lambda value: 0 <= value < 2**62)
flag = _typed(bool)
# The fingerprint of a token, and a token of another node.
fingerprint = _typed(bytes, fits=lambda value: len(value) == 32)
secret = _typed(bytes, fits=lambda value: len(value) == TOKEN_BYTES)
# Named arguments.
settings = _typed(dict, fits=lambda value: all(type(key) is str and len(key) <= 100 for key in value))
# A tuple, which the handler checks itself.
row = _typed(tuple)


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
