"""Records a function twice, and makes a program of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from syft.core.callsite import describe_line
from syft.core.trees import iter_tensors, rebuild_tuple
from syft.exceptions import PlanBuildError
from syft.messaging.mutation import alters
from syft.messaging.plan.arguments import describe_arguments, example_of
from syft.messaging.plan.checks import check
from syft.messaging.plan.interpreter import Specs, specs_of
from syft.messaging.plan.program import Argument, Program
from syft.messaging.plan.record.module_binding import name_captured, optimizers_of
from syft.messaging.plan.record.recording import Recorder, current, memory_of
from syft.messaging.plan.record.state_snapshot import seeded
from syft.tensors.placeholder import PlaceHolder


@dataclasses.dataclass(frozen=True, slots=True)
class PlanRecording:
    """The result of recording a function."""

    program: Program
    lines: list[tuple[str, int]]  # the line of the user's code of each operation
    optimizers: list[Any]  # the optimizers whose steps are in it
    stateful: list[Any]  # those of them that keep state between steps
    specs: Specs  # the specs of the inputs it was recorded with


def record(
    function: Callable[..., Any],
    state: list[PlaceHolder],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    last: tuple[Any, ...] = (),
) -> PlanRecording:
    """Record a function with example arguments.

    It runs twice: a difference means that it depends on something that is not part of the plan, such as a counter or
    a Python random number.
    """
    if current() is not None:
        raise PlanBuildError("Building another plan", hint="Build it outside of the function, and call it.")
    first = _record_once(function, state, args, kwargs, last)
    again = _record_once(function, state, args, kwargs, last)
    _require_same(first, again)
    if any(one is not other for one, other in zip(first.stateful, again.stateful, strict=True)):
        raise PlanBuildError(
            "An optimizer made inside of the function that keeps state between steps",
            hint="Make it once, outside; the plan then continues with it at each call.",
        )
    check(first.program, len(first.optimizers))
    name_captured(function, first.program.state)
    _require_own_memory(first.program)
    _number(first.program)
    return first


def _record_once(
    function: Callable[..., Any],
    state: list[PlaceHolder],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    last: tuple[Any, ...],
) -> PlanRecording:
    recorder = Recorder(state, optimizers_of(function))
    rows = describe_arguments(function, args, kwargs, skip_last=bool(last))
    arguments: list[Argument] = []
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, value, by_name, optional in rows:
        example, pattern = _input(recorder, value)
        arguments.append(Argument(name, pattern, by_name, optional))
        if by_name and name is not None:
            named[name] = example
        else:
            positional.append(example)
    try:
        with recorder.recording():
            result = function(*positional, *last, **named)
            sets_seed = seeded()
        outputs = recorder.symbolic(result)
    except Exception as error:
        if recorder.refusal is not None and recorder.refusal is not error:
            raise recorder.refusal from error
        if "dynamicLayerStack" in str(error):  # torch's error for its transforms inside of other modes
            raise PlanBuildError("A transform of torch.func", hint="Use torch calls on whole tensors.") from error
        raise
    if recorder.refusal is not None:
        raise recorder.refusal
    if recorder.failure is not None:
        name, line = recorder.failure
        raise PlanBuildError(
            f"An error of {name} that the function catches", describe_line(line), "Branch by shapes, or outside of it."
        )
    if sets_seed:
        raise PlanBuildError("torch.manual_seed", hint="Set the seed outside of the plan, before it is called.")
    recorder.prune(outputs)
    program = Program(
        tuple(arguments),
        tuple(recorder.inputs),
        (*recorder.state, *recorder.captured),
        tuple(recorder.operations),
        outputs,
    )
    return PlanRecording(
        program, recorder.lines, recorder.optimizers, recorder.stateful, specs_of(row[1] for row in rows)
    )


def _input(recorder: Recorder, value: object) -> tuple[Any, Any]:
    """Return an argument to record with, and its pattern."""
    if isinstance(value, torch.Tensor):
        example = example_of(value)
        return example, recorder.new_input(example)
    if isinstance(value, tuple | list):
        pairs = [_input(recorder, item) for item in value]
        if isinstance(value, list):
            return [p[0] for p in pairs], [p[1] for p in pairs]
        return rebuild_tuple(type(value), [p[0] for p in pairs]), tuple(p[1] for p in pairs)
    if isinstance(value, dict):
        found = {key: _input(recorder, item) for key, item in value.items()}
        return {key: p[0] for key, p in found.items()}, {key: p[1] for key, p in found.items()}
    if isinstance(value, torch.nn.Module):
        raise PlanBuildError(
            "A module as an argument",
            hint="Use it in the function, or make the plan of it: sy.Plan(forward_func=model).",
        )
    pattern = recorder.symbolic(value)
    return pattern, pattern


def _require_own_memory(program: Program) -> None:
    """Refuse state tensors that share memory if the program changes tensors: at a worker they are separate."""
    spans = [(*_span(placeholder.child), placeholder) for placeholder in program.state]
    shared = [p for start, end, p in spans if any(q is not p and start < b and a < end for a, b, q in spans)]
    if shared and alters(program.operations):
        names = ", ".join(sorted(p.description or "one without a name" for p in shared))
        raise PlanBuildError(
            f"A function that changes tensors and uses several that share memory ({names})",
            hint="Use one of them and derive the others inside of the function.",
        )


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the first and last address of the values of a tensor."""
    if not memory_of(tensor) or not tensor.numel():
        return 0, 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


def _require_same(first: PlanRecording, again: PlanRecording) -> None:
    one, two = first.program.to_rows(), again.program.to_rows()
    before, after = first.program.state, again.program.state
    if len(before) == len(after) and any(a.child is not b.child for a, b in zip(before, after, strict=True)):
        raise PlanBuildError(
            "A tensor made inside of the function without a torch call (torch.from_numpy, nn.Parameter)",
            hint="Make it outside of the function, or with torch.tensor.",
        )
    for number, (a, b) in enumerate(zip(one[1], two[1], strict=False)):
        if repr(a) != repr(b):
            raise _changing(first.lines[number])
    if len(one[1]) != len(two[1]) or repr((one[0], one[2])) != repr((two[0], two[2])):
        longer = max(first.lines, again.lines, key=len)
        shorter = min(len(first.lines), len(again.lines))
        raise _changing(longer[shorter] if shorter < len(longer) else None)


def _changing(line: tuple[str, int] | None) -> PlanBuildError:
    return PlanBuildError(
        "A function that differs between two runs",
        describe_line(line) if line else "",
        "It depends on a Python value that changes (a counter, random, time). Pass that value as a tensor.",
    )


def _number(program: Program) -> None:
    """Tag each placeholder with its number, and each output as an output."""
    for number, placeholder in enumerate(program.placeholders()):
        placeholder.tags.add(f"#{number}")
    for number, placeholder in enumerate(iter_tensors(program.outputs)):
        placeholder.tags.add(f"#output-{number}")
