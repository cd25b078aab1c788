"""Checks of an untrusted program, before any of it runs."""

from __future__ import annotations

import functools
import keyword
import re
from collections.abc import Callable
from typing import Any

from syft.config import current
from syft.core.trees import iter_tensors
from syft.exceptions import CommandNotAllowedError, MalformedPlanError, UnsupportedOperationError
from syft.hook.functions import function_of
from syft.messaging.message import Operation
from syft.messaging.plan.arity import accepts
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
        return accepts(name, function_for(name), len(args), tuple(kwargs))

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
