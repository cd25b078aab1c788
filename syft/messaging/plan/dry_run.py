"""Forms: shapes and dtypes of the values of a program, found without computing any.

A plan keeps the forms of the inputs it was built with, never their values. What the results look like is found by
running the program on torch's fake tensors, which have a shape and a dtype and no memory.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from syft.core.trees import iter_tensors
from syft.messaging.message import Operation
from syft.messaging.plan.checks import function_for
from syft.messaging.plan.commands import GRAD_MODE, OPTIMIZER_STEP
from syft.messaging.plan.program import Program, map_pattern
from syft.tensors.placeholder import PlaceHolder

_one_at_a_time = threading.RLock()
Lookup = Callable[[Operation], Callable[..., Any] | None]


@dataclasses.dataclass(frozen=True, slots=True)
class ValueSpec:
    """What is known of a tensor without its values.

    Attributes:
        shape: its sizes.
        dtype: its dtype.
        requires_grad: whether it is a leaf that requires a gradient.
        varies: which of its sizes follow the inputs.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    requires_grad: bool = False
    varies: frozenset[int] = frozenset()


def forms_of(values: Iterable[Any]) -> tuple[ValueSpec, ...]:
    """Return the forms of the tensors in nested values, in order."""
    return tuple(
        ValueSpec(tuple(tensor.shape), tensor.dtype, bool(tensor.requires_grad))
        for value in values
        for tensor in iter_tensors(value)
    )


def run_steps(
    program: Program, inputs: Iterable[Any], state: Iterable[Any], lookup: Lookup, values: dict[int, Any]
) -> Iterator[int]:
    """Run a program, yielding the number of each operation when it is done.

    Args:
        program: the program.
        inputs: values of its inputs.
        state: values of its state.
        lookup: gives the function of an operation, or None to leave the operation out.
        values: takes the value of each placeholder, by the placeholder's id() in this process.
    """
    places = (*program.inputs, *program.state)
    values.update((id(place), value) for place, value in zip(places, (*inputs, *state), strict=True))
    for number, operation in enumerate(program.operations):
        function = lookup(operation)
        if function is not None:
            args, kwargs = map_pattern(lambda p: values[id(p)], (operation.cmd_args, operation.cmd_kwargs))
            result = function(*args, **kwargs)
            for pattern in operation.return_ids:
                _bind(pattern, result, values)
        yield number


def interpret(program: Program, inputs: Iterable[Any], state: Iterable[Any], lookup: Lookup) -> Any:
    """Run a program one operation after the other and return its outputs; the arguments are those of `run_steps`."""
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


# --- results, without computing them --------------------------------------------------------------------------

Results = list[tuple[ValueSpec | None, ...]]
# An optimizer has tensors of its own, and its steps change no shape.
_INSTEAD: dict[str, Callable[..., Any] | None] = {
    OPTIMIZER_STEP: None,
    GRAD_MODE: lambda mode: torch._C._set_grad_enabled(mode is not False),
}
_UNUSUAL = (7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)
_MOST_GROUPS = 6
_MOST_STEPS = 2000


def results_of(program: Program, forms: tuple[ValueSpec, ...]) -> Results:
    """Return the forms of what each operation gives; empty tuples from where torch can't tell without values."""
    found, _ = _dry_run(program, forms)
    return found + [()] * (len(program.operations) - len(found))


def _dry_run(program: Program, forms: tuple[ValueSpec, ...]) -> tuple[Results, bool]:
    """Run a program on fake tensors; returns the forms it got to, and whether it got to the end."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    found: Results = []
    values: dict[int, Any] = {}
    try:
        with quiet(), FakeTensorMode() as mode, torch.enable_grad():
            state = [mode.from_tensor(placeholder.child) for placeholder in program.state]
            for number in run_steps(program, [empty(form) for form in forms], state, _function, values):
                places = iter_tensors(program.operations[number].return_ids)
                found.append(tuple(_form(values[id(place)]) for place in places))
    except Exception:
        # Data-dependent shapes, remote state, checks that do not hold: all of them only mean that it is not known.
        return found, False
    return found, True


@contextmanager
def quiet() -> Iterator[None]:
    """Keep torch from telling the user that shapes do not fit, where trying that out is the point."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    with _one_at_a_time:  # filters and loggers are the whole process's
        before, logger.disabled = logger.disabled, True
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            logger.disabled = before


def _function(operation: Operation) -> Callable[..., Any] | None:
    return _INSTEAD[operation.cmd_name] if operation.cmd_name in _INSTEAD else function_for(operation.cmd_name)


def _form(value: object) -> ValueSpec | None:
    return ValueSpec(tuple(map(int, value.shape)), value.dtype) if isinstance(value, torch.Tensor) else None


def empty(form: ValueSpec) -> torch.Tensor:
    """Return a tensor of a form."""
    return torch.zeros(form.shape, dtype=form.dtype).requires_grad_(form.requires_grad)


def with_other_sizes(program: Program, forms: tuple[ValueSpec, ...]) -> list[tuple[ValueSpec, ...]]:
    """Return forms that the program runs with as well, each with one more size other than in these.

    Which sizes may vary is tried out: the first of each input together, and all that are equal in the example, for
    they may have to stay equal.

    Args:
        program: the program.
        forms: forms that it runs with.
    """
    sizes = {size for form in forms for size in form.shape}
    unusual = [size for size in _UNUSUAL if size not in sizes]
    found = [forms]
    if len(program.operations) > _MOST_STEPS or not _dry_run(program, forms)[1]:
        return []
    for places in _groups(forms):
        for size in (unusual[0], 2 * forms[places[0][0]].shape[places[0][1]]):
            tried = _resized(found[-1], places, size)
            if tried != found[-1] and _dry_run(program, tried)[1]:
                found.append(tried)
                unusual = unusual[1:]
                break
    return found[1:]


def _groups(forms: tuple[ValueSpec, ...]) -> list[list[tuple[int, int]]]:
    """Return groups of (input, dimension) that may be of one size."""
    groups: dict[int, list[tuple[int, int]]] = {}
    for number, form in enumerate(forms):
        for dim, size in enumerate(form.shape):
            groups.setdefault(size, []).append((number, dim))
    first = [(number, 0) for number, form in enumerate(forms) if form.shape]
    return ([first] if first else []) + [g for g in list(groups.values())[:_MOST_GROUPS] if g != first]


def _resized(forms: tuple[ValueSpec, ...], places: list[tuple[int, int]], size: int) -> tuple[ValueSpec, ...]:
    shapes = [list(form.shape) for form in forms]
    for number, dim in places:
        shapes[number][dim] = size
    return tuple(dataclasses.replace(form, shape=tuple(shape)) for form, shape in zip(forms, shapes, strict=True))


def marked(forms: Results, others: Results) -> Results:
    """Return forms that say which of their sizes differ in other ones."""
    return [
        tuple(_marked(a, b) for a, b in zip(row, other, strict=True)) if len(row) == len(other) else row
        for row, other in zip(forms, others, strict=True)
    ]


def _marked(form: ValueSpec | None, other: ValueSpec | None) -> ValueSpec | None:
    if form is None or other is None or len(form.shape) != len(other.shape):
        return form
    differing = frozenset(dim for dim, (a, b) in enumerate(zip(form.shape, other.shape, strict=True)) if a != b)
    return dataclasses.replace(form, varies=differing)
