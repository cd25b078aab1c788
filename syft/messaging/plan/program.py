"""Program: the operations of a plan, as data.

In memory the operations hold placeholders. On the wire a placeholder is its number: inputs first, then the state, then
the results in order of computation, so that a number that was not seen before is invalid.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import torch

from syft.config import current
from syft.core.references import Ref
from syft.core.trees import iter_tensors
from syft.exceptions import MalformedPlanError
from syft.messaging.message import Operation
from syft.tensors.placeholder import PlaceHolder

MAX_NESTING = 16
# The maximum number of values in a plan, and the number added for each of its operations.
MAX_VALUES, MAX_VALUES_PER_OPERATION = 50_000, 16
ATOMS = frozenset(
    {
        bool,
        int,
        float,
        complex,
        str,
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
        type(None),
        type(...),
    }
)

# The named tuples of torch, such as the result of x.max(dim=0); they may hold placeholders.
RETURN_TYPES: frozenset[Any] = frozenset(torch.return_types.all_return_types)


@dataclasses.dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a plan."""

    name: str | None  # None if it is positional only
    pattern: Any  # its structure: placeholders for tensors, and constants
    by_name: bool = False  # whether it is keyword only
    optional: bool = False  # whether it may be left out; its value is then that of the build


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """Operations over placeholders."""

    arguments: tuple[Argument, ...] = ()
    inputs: tuple[PlaceHolder, ...] = ()  # the placeholders of the tensors in the arguments
    state: tuple[PlaceHolder, ...] = ()  # the placeholders of the state, each with its tensor
    operations: tuple[Operation, ...] = ()
    outputs: Any = None  # the results: placeholders in containers, and constants

    def placeholders(self) -> list[PlaceHolder]:
        """Return every placeholder once, in the order of their numbers."""
        found: dict[int, PlaceHolder] = {id(p): p for p in (*self.inputs, *self.state)}
        for operation in self.operations:
            for placeholder in iter_tensors(operation.return_ids):
                found.setdefault(id(placeholder), placeholder)
        return list(found.values())

    def last_uses(self, kept: Iterable[PlaceHolder]) -> dict[int, list[PlaceHolder]]:
        """Return, for each operation, the values that nothing after it needs; not those that are kept."""
        needed = {id(p) for p in (*iter_tensors(self.outputs), *kept)}
        last: dict[int, list[PlaceHolder]] = {}
        for number in range(len(self.operations) - 1, -1, -1):
            operation = self.operations[number]
            for placeholder in iter_tensors((operation.cmd_args, operation.cmd_kwargs, operation.return_ids)):
                if id(placeholder) not in needed:
                    needed.add(id(placeholder))
                    last.setdefault(number, []).append(placeholder)
        return last

    def to_rows(self) -> tuple[Any, ...]:
        """Return arguments, operations and outputs with numbers for placeholders."""
        numbers = {id(p): Ref(number) for number, p in enumerate(self.placeholders())}

        def numbered(value: object) -> Any:
            return map_pattern(lambda p: _number(numbers, p), value)

        arguments = tuple((a.name, numbered(a.pattern), a.by_name, a.optional) for a in self.arguments)
        operations = tuple(
            (o.cmd_name, numbered(o.cmd_args), numbered(o.cmd_kwargs), numbered(o.return_ids)) for o in self.operations
        )
        return arguments, operations, numbered(self.outputs)


def _number(numbers: dict[int, Ref], placeholder: PlaceHolder) -> Ref:
    found = numbers.get(id(placeholder))
    if found is None:
        raise MalformedPlanError(f"{placeholder!r} is used in the plan before it has a value.")
    return found


def map_pattern(function: Callable[[Any], Any], value: Any, depth: int = 0) -> Any:
    """Return nested values with `function` applied to each placeholder or reference, other values checked."""
    kind = type(value)
    if kind in ATOMS:
        return value
    if kind is PlaceHolder or kind is Ref:
        return function(value)
    if depth >= MAX_NESTING:
        raise MalformedPlanError(f"A plan holds values nested deeper than {MAX_NESTING} levels.")
    if kind is tuple:
        return tuple([map_pattern(function, item, depth + 1) for item in value])
    if kind is list:
        return [map_pattern(function, item, depth + 1) for item in value]
    if kind in RETURN_TYPES:
        return kind([map_pattern(function, item, depth + 1) for item in value])
    if kind is dict:
        if not all(type(key) is str for key in value):
            raise MalformedPlanError("A plan holds a dictionary whose keys are not strings.")
        return {key: map_pattern(function, item, depth + 1) for key, item in value.items()}
    if kind is slice:
        return slice(*(map_pattern(function, part, depth + 1) for part in (value.start, value.stop, value.step)))
    raise MalformedPlanError(f"A plan can't hold a {kind.__name__}.")


class _ProgramReader:
    """Rebuilds placeholders from numbered rows; refuses inconsistent ones."""

    def __init__(self, inputs: int, state: tuple[PlaceHolder, ...]) -> None:
        self.inputs = tuple(PlaceHolder(tags={f"#input-{number}"}) for number in range(inputs))
        self.defined: list[PlaceHolder] = [*self.inputs, *state]

    def use(self, ref: object) -> PlaceHolder:
        """Return the placeholder of a number that has a value already."""
        if type(ref) is not Ref or type(ref.id) is not int or ref.attribute is not None:
            raise MalformedPlanError("A plan refers to its values by numbers.")
        if not 0 <= ref.id < len(self.defined):
            raise MalformedPlanError(f"The plan uses value {ref.id} before it is computed.")
        return self.defined[ref.id]

    def define(self, ref: object) -> PlaceHolder:
        """Return the placeholder of a result: the next number, or an earlier one (an in-place call)."""
        if type(ref) is Ref and ref.id == len(self.defined):
            self.defined.append(PlaceHolder(tags={"#inner"}))
        return self.use(ref)


def from_rows(rows: Any, inputs: int, state: tuple[PlaceHolder, ...]) -> Program:
    """Read an untrusted program."""
    arguments, operations, outputs = rows
    limit = current().max_plan_operations
    if type(operations) is not tuple or len(operations) > limit:
        raise too_many_operations()
    if type(inputs) is not int or not 0 <= inputs <= limit:
        raise MalformedPlanError(f"A plan has at most {limit} inputs.")
    _count_values(rows, MAX_VALUES + MAX_VALUES_PER_OPERATION * len(operations))
    reader = _ProgramReader(inputs, state)
    parsed = tuple(_argument(reader, row) for row in _tuple(arguments))
    if [id(p) for a in parsed for p in iter_tensors(a.pattern)] != [id(p) for p in reader.inputs]:
        raise MalformedPlanError("The arguments of a plan must hold its inputs, each once and in order.")
    body = tuple(_operation(reader, row) for row in operations)
    return Program(parsed, reader.inputs, state, body, map_pattern(reader.use, outputs))


def _count_values(rows: Any, limit: int) -> None:
    """Refuse a program with too many values: compiling makes a name for each."""
    count, pending = 0, [rows]
    while pending:
        value = pending.pop()
        kind = type(value)
        if kind is tuple or kind is list or kind is dict or kind in RETURN_TYPES:
            count += len(value)
            if count > limit:
                raise MalformedPlanError(
                    f"A plan holds at most {limit} values in its operations. Put long lists of numbers in a tensor "
                    "made outside of the function."
                )
            pending += value.values() if kind is dict else value


def too_many_operations() -> MalformedPlanError:
    """Return the error for a plan that is too long."""
    limit = current().max_plan_operations
    return MalformedPlanError(f"A plan has at most {limit} operations (syft.config: max_plan_operations).")


def _tuple(value: object) -> tuple[Any, ...]:
    if type(value) is not tuple:
        raise MalformedPlanError("The parts of a plan must be tuples.")
    return value


def _argument(reader: _ProgramReader, row: object) -> Argument:
    name, pattern, by_name, optional = _tuple(row)
    if not (name is None or type(name) is str) or type(by_name) is not bool or type(optional) is not bool:
        raise MalformedPlanError("An argument of a plan has a name, a pattern and two flags.")
    if by_name and name is None:
        raise MalformedPlanError("A keyword-only argument of a plan has no name.")
    return Argument(name, map_pattern(reader.use, pattern), by_name, optional)


def _operation(reader: _ProgramReader, row: object) -> Operation:
    name, args, kwargs, results = _tuple(row)
    if type(name) is not str or type(args) is not tuple or type(kwargs) is not dict or type(results) is not tuple:
        raise MalformedPlanError("An operation of a plan has a name, arguments, keyword arguments and results.")
    operation = Operation(name, None, map_pattern(reader.use, args), map_pattern(reader.use, kwargs), ())
    return dataclasses.replace(operation, return_ids=map_pattern(reader.define, results))
