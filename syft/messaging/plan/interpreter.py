"""Runs a program one operation after the other, with functions that the caller chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from syft.messaging.message import Operation
from syft.messaging.plan.program import Program, map_pattern
from syft.tensors.placeholder import PlaceHolder

Lookup = Callable[[Operation], Callable[..., Any] | None]


def run_steps(
    program: Program, inputs: Iterable[Any], state: Iterable[Any], lookup: Lookup, values: dict[int, Any]
) -> Iterator[int]:
    """Run a program; yields the number of each operation after it has run.

    Args:
        program: the program.
        inputs: values of its inputs.
        state: values of its state.
        lookup: returns the function of an operation; None skips the operation.
        values: receives the value of each placeholder, by the id() of the placeholder.
    """
    given = (*program.inputs, *program.state)
    values.update((id(p), value) for p, value in zip(given, (*inputs, *state), strict=True))
    for number, operation in enumerate(program.operations):
        function = lookup(operation)
        if function is not None:
            args, kwargs = map_pattern(lambda p: values[id(p)], (operation.cmd_args, operation.cmd_kwargs))
            result = function(*args, **kwargs)
            for pattern in operation.return_ids:
                _bind(pattern, result, values)
        yield number


def interpret(program: Program, inputs: Iterable[Any], state: Iterable[Any], lookup: Lookup) -> Any:
    """Run a program and return its outputs; the arguments are those of `run_steps`."""
    values: dict[int, Any] = {}
    for _ in run_steps(program, inputs, state, lookup, values):
        pass
    return map_pattern(lambda p: values[id(p)], program.outputs)


def _bind(pattern: Any, result: Any, values: dict[int, Any]) -> None:
    if isinstance(pattern, PlaceHolder):
        values[id(pattern)] = result
    elif pattern is not None:
        for part, item in zip(pattern, result, strict=True):
            _bind(part, item, values)
