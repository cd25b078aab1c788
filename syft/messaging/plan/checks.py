"""Checks of an untrusted program, before any of it runs."""

from __future__ import annotations

import functools
import inspect
import keyword
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.overrides import get_testing_overrides

from syft.config import current
from syft.core.trees import iter_tensors
from syft.exceptions import CommandNotAllowedError, MalformedPlanError, UnsupportedOperationError
from syft.hook.allowed_functions import function_of
from syft.hook.guards import GUARDS, guard_call
from syft.hook.size_bounds import bound_size_tensors, bound_sizes, may_take_sizes
from syft.messaging.message import Operation
from syft.messaging.plan.commands import (
    COMMANDS,
    COMPUTED,
    EXPECT,
    EXPECT_PROPERTY,
    GRAD_MODE,
    NUMBERS,
    OPTIMIZER_STEP,
    PROPERTIES,
    RELATIONS,
    SIZE,
)
from syft.messaging.plan.metadata_access import VALUE_READS
from syft.messaging.plan.program import Program, too_many_operations
from syft.tensors.placeholder import PlaceHolder

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_SILENT = frozenset({GRAD_MODE, OPTIMIZER_STEP, EXPECT, EXPECT_PROPERTY})


@functools.cache
def function_for(name: str) -> Callable[..., Any]:
    """Return the function that an operation of a plan calls; refuses one that is not in the tables.

    Other commands of a worker, and calls that read values of tensors, are not allowed in a plan.
    """
    if name in COMMANDS:
        return COMMANDS[name]
    function = function_of(name) if not name.startswith("syft.") else None
    if function is None or function in VALUE_READS:
        raise CommandNotAllowedError(repr(name[:100]), "it is not allowed in a plan.")
    return function


def guarded(operation: Operation) -> Callable[..., Any]:
    """Return the function of an operation, with the checks of its arguments, if it has any."""
    name = operation.cmd_name
    function = function_for(name)
    sized = may_take_sizes(name, operation.cmd_args, operation.cmd_kwargs)
    if not sized and name not in GUARDS:
        return function

    def checked(*args: object, **kwargs: object) -> Any:
        if sized:
            bound_sizes(name, args, kwargs)
            bound_size_tensors(name, args, kwargs)
        guard_call(name, args, kwargs)
        return function(*args, **kwargs)

    return checked


def check(program: Program, optimizers: int = 0) -> None:
    """Refuse a program with an operation that is not in the tables, or with invalid arguments."""
    if len(program.operations) > current().max_plan_operations:
        raise too_many_operations()
    checker = _Checker(optimizers)
    for number, operation in enumerate(program.operations):
        try:
            checker.check(operation)
        except (MalformedPlanError, UnsupportedOperationError) as error:
            error.add_note(f"This is operation {number} of the plan.")
            raise


class _Checker:
    """Checks operations in order.

    Only sizes count as numbers, so that a check of sizes never depends on the values of a tensor.
    """

    def __init__(self, optimizers: int) -> None:
        self.optimizers = optimizers
        self.numbers: set[int] = set()

    def check(self, operation: Operation) -> None:
        """Check one operation, and record the kind of its results."""
        name, args, kwargs = operation.cmd_name, operation.cmd_args, operation.cmd_kwargs
        for key in kwargs:
            if not _NAME.fullmatch(key) or keyword.iskeyword(key):
                raise MalformedPlanError("A keyword argument of a plan is not a Python identifier.")
        if len(operation.return_ids) > 1 or not all(map(_is_result, operation.return_ids)):
            raise MalformedPlanError("The results of an operation must be a placeholder or a tuple of them.")
        if not self._fits(name, args, kwargs) or (name in _SILENT and operation.return_ids):
            raise MalformedPlanError(
                f"{name} can't be called with these {len(args)} arguments and the keywords {sorted(kwargs)}."
            )
        results = {id(leaf) for leaf in iter_tensors(operation.return_ids)}
        (self.numbers.update if name in NUMBERS else self.numbers.difference_update)(results)

    def _fits(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        if name == GRAD_MODE:
            return len(args) == 1 and (args[0] is None or type(args[0]) is bool) and not kwargs
        if name == OPTIMIZER_STEP:
            valid = len(args) == 2 and type(args[0]) is int and 0 <= args[0] < self.optimizers and not kwargs
            return valid and type(args[1]) is tuple and all(map(_is_setting, args[1]))
        if name in COMMANDS:
            return not kwargs and self._fits_command(name, args)
        return _accepts(name, function_for(name), len(args), tuple(kwargs))

    def _fits_command(self, name: str, args: tuple[Any, ...]) -> bool:
        if name == EXPECT:
            valid = len(args) == 4 and type(args[0]) is str and args[0] in RELATIONS and type(args[3]) is bool
            return valid and self._is_number(args[1]) and self._is_number(args[2])
        if name in COMPUTED:
            return len(args) == (1 if name == "syft.plan.neg" else 2) and all(map(self._is_number, args))
        if not args or type(args[0]) is not PlaceHolder or id(args[0]) in self.numbers:
            return False
        if name == EXPECT_PROPERTY:
            valid = len(args) == 3 and type(args[1]) is str and args[1] in PROPERTIES
            return valid and next(iter_tensors(args[2]), None) is None
        return len(args) == 2 and type(args[1]) is int if name == SIZE else len(args) == 1

    def _is_number(self, value: object) -> bool:
        return id(value) in self.numbers if type(value) is PlaceHolder else type(value) in (int, float)


def _is_setting(row: object) -> bool:
    kinds = [type(part) for part in row] if type(row) is tuple else []
    return kinds == [int, str, PlaceHolder]


def _is_result(pattern: object) -> bool:
    if pattern is None or type(pattern) is PlaceHolder:
        return True
    return type(pattern) is tuple and all(map(_is_result, pattern))


# --- number and names of arguments ----------------------------------------------------------------------------------
# `inspect` has no signatures of torch's C functions. Their operator schemas and torch's testing overrides have some; a
# call is refused only if no known signature accepts it.


class Signature(NamedTuple):
    """How a function may be called."""

    required: int
    positional: int
    names: frozenset[str]
    open_ended: bool


# Names of numpy that torch accepts too.
_ALIASES = frozenset(
    {"axis", "keepdims", "x", "x1", "x2", "a", "out", "inplace", "dim", "input", "self", "other", "size"}
)

# Modules whose name is a prefix of their operators' names.
_PREFIXES = {f"torch.{module}": f"{module}_" for module in ("fft", "linalg", "special")}


def _accepts(name: str, function: Callable[..., Any], positional: int, keywords: tuple[str, ...]) -> bool:
    """Say whether a function can be called with this number of arguments and these keywords."""
    known = _signatures(name, function)
    return not known or any(_fits(signature, positional, keywords) for signature in known)


def _fits(signature: Signature, positional: int, keywords: tuple[str, ...]) -> bool:
    if positional + len(keywords) < signature.required:
        return False
    if signature.open_ended:
        return True
    unknown = set(keywords) - signature.names - _ALIASES
    return positional <= signature.positional and not unknown and positional + len(keywords) <= len(signature.names) + 1


@functools.cache
def _signatures(name: str, function: Callable[..., Any]) -> tuple[Signature, ...]:
    found = [*_inspected(function), *_inspected(get_testing_overrides().get(function)), *_schemas(name)]
    return tuple(dict.fromkeys(found))


def _inspected(function: Any) -> Iterator[Signature]:
    if function is None:
        return
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    open_ended = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)
    required = sum(p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)
    yield Signature(required, len(positional), frozenset(p.name for p in parameters), open_ended)


def _schemas(name: str) -> Iterator[Signature]:
    """Yield the operator schemas of a function or method in C; a list of numbers may be passed one by one."""
    module, _, last = name.rpartition(".")
    prefix = _PREFIXES.get(module, "")
    packet = getattr(torch.ops.aten, prefix + last, None) if name.startswith("torch.") else None
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return
    for overload in packet.overloads():  # type: ignore[no-untyped-call]
        arguments = getattr(packet, overload)._schema.arguments
        spread = any(str(a.type).startswith(("List[int]", "List[SymInt]", "Optional[List[int]]")) for a in arguments)
        required = sum(not a.has_default_value() for a in arguments)
        yield Signature(required, len(arguments), frozenset(a.name for a in arguments), spread)
