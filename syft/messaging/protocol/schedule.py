"""Schedule: the runs and moves of a protocol, as data, and the checks of one that comes from a wire.

Values have numbers: the inputs of each role, then the state of each role, then results in order of computation.
Every value is at one role. A run computes new values at its role; a move gives its value a new number at another role.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from syft.exceptions import MalformedPlanError
from syft.messaging.plan.plan import Plan
from syft.messaging.plan.program import map_pattern
from syft.messaging.protocol.base import MAX_PLANS
from syft.messaging.protocol.transfer import pointer_in
from syft.pointers.pointer_plan import PointerPlan

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

    Workers = tuple[BaseWorker, ...] | None

RUN, MOVE = "run", "move"
MAX_VALUES = 20_000


@dataclasses.dataclass(frozen=True, slots=True)
class ScheduledRun:
    """One message to one role: run a plan."""

    role: int  # the number of the role
    inputs: tuple[int, ...]  # the numbers of the plan's arguments
    # The numbers of its results; the number of an earlier value means that this value is replaced.
    outputs: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ScheduledMove:
    """One value goes to another role."""

    source: int  # its number until then
    target: int  # its number from then on
    role: int  # the number of the role that receives it


ScheduledStep = ScheduledRun | ScheduledMove


@dataclasses.dataclass(frozen=True, slots=True)
class Schedule:
    """The steps of a protocol."""

    roles: tuple[str, ...]  # the names of the roles
    inputs: tuple[int, ...]  # the number of inputs of each
    states: tuple[int, ...]  # the number of state tensors of each
    steps: tuple[ScheduledStep, ...]  # runs and moves, in order
    outputs: Any  # the results: `Ref(number)` in containers, and constants

    def input_numbers(self, role: int) -> range:
        """Return the numbers of a role's inputs."""
        start = sum(self.inputs[:role])
        return range(start, start + self.inputs[role])

    def state_numbers(self, role: int) -> range:
        """Return the numbers of a role's state."""
        start = sum(self.inputs) + sum(self.states[:role])
        return range(start, start + self.states[role])

    def runs(self) -> list[ScheduledRun]:
        """Return the runs; there is one plan for each, in this order."""
        return [step for step in self.steps if isinstance(step, ScheduledRun)]

    def last_uses(self) -> dict[int, int]:
        """Return, for each value, the last step that needs it; results are needed after all steps."""
        last: dict[int, int] = {}
        for number, step in enumerate(self.steps):
            for value in step.inputs + step.outputs if isinstance(step, ScheduledRun) else (step.source, step.target):
                last[value] = number
        map_pattern(lambda ref: last.update({ref.id: len(self.steps)}), self.outputs)
        return last

    def to_rows(self) -> tuple[Any, ...]:
        """Return it as plain tuples."""
        steps = tuple(
            (RUN, s.role, s.inputs, s.outputs) if isinstance(s, ScheduledRun) else (MOVE, s.source, s.target, s.role)
            for s in self.steps
        )
        return self.roles, self.inputs, self.states, steps, self.outputs


def from_rows(rows: object) -> Schedule:
    """Read an untrusted schedule; refuses one that uses a value at a role that does not hold it."""
    if type(rows) is not tuple or len(rows) != 5:
        raise MalformedPlanError("A protocol has roles, inputs, states, steps and results.")
    roles, inputs, states, steps, outputs = rows
    if not _is_tuple_of(str, roles) or not 0 < len(roles) <= MAX_PLANS or len(set(roles)) != len(roles):
        raise MalformedPlanError("The roles of a protocol have different names.")
    for counts in (inputs, states):
        if not _is_tuple_of(int, counts) or len(counts) != len(roles) or min(counts) < 0 or sum(counts) > MAX_VALUES:
            raise MalformedPlanError("A protocol has the number of inputs and of state tensors of each role.")
    if type(steps) is not tuple or len(steps) > 2 * MAX_VALUES:
        raise MalformedPlanError(f"A protocol has at most {2 * MAX_VALUES} steps.")
    holders = [role for counts in (inputs, states) for role, count in enumerate(counts) for _ in range(count)]
    parsed = tuple(_read_steps(steps, holders, len(roles)))
    if sum(isinstance(step, ScheduledRun) for step in parsed) > MAX_PLANS:
        raise MalformedPlanError(f"A protocol has at most {MAX_PLANS} plans.")
    map_pattern(lambda ref: _check_value(getattr(ref, "id", None), holders) and ref, outputs)
    return Schedule(roles, inputs, states, parsed, outputs)


def _read_steps(steps: tuple[Any, ...], holders: list[int], roles: int) -> Iterator[ScheduledStep]:
    """Yield the steps; `holders` gets the role that holds each new value."""
    moved_away: set[int] = set()
    for row in steps:
        if type(row) is not tuple or len(row) != 4 or row[0] not in (RUN, MOVE):
            raise MalformedPlanError("A step of a protocol is a run or a move.")
        step = _read_run(row, holders, roles) if row[0] == RUN else _read_move(row, holders, roles)
        used = step.inputs if isinstance(step, ScheduledRun) else (step.source,)
        if moved_away.intersection(used):
            raise MalformedPlanError("A protocol uses a value after it was moved away.")
        if isinstance(step, ScheduledMove):
            moved_away.add(step.source)
        if len(holders) > MAX_VALUES:
            raise MalformedPlanError(f"A protocol has at most {MAX_VALUES} values.")
        yield step


def _read_run(row: tuple[Any, ...], holders: list[int], roles: int) -> ScheduledRun:
    _, role, inputs, outputs = row
    if not _is_role(role, roles) or not _is_tuple_of(int, inputs) or not _is_tuple_of(int, outputs):
        raise MalformedPlanError("A run of a protocol has a role, inputs and outputs.")
    if not all(_check_value(number, holders) and holders[number] == role for number in inputs):
        raise MalformedPlanError("A protocol runs a plan on values that are at another role.")
    for number in outputs:
        if number == len(holders):
            holders.append(role)
        elif not _check_value(number, holders) or holders[number] != role:
            raise MalformedPlanError("A protocol gives a result a number that is taken.")
    return ScheduledRun(role, inputs, outputs)


def _read_move(row: tuple[Any, ...], holders: list[int], roles: int) -> ScheduledMove:
    _, source, target, role = row
    if not _is_role(role, roles) or type(target) is not int or target != len(holders):
        raise MalformedPlanError("A move of a protocol gives a value its next number at a role.")
    _check_value(source, holders)
    holders.append(role)
    return ScheduledMove(source, target, role)


def _is_role(role: object, roles: int) -> bool:
    return type(role) is int and 0 <= role < roles


def _is_tuple_of(kind: type, value: object) -> bool:
    return type(value) is tuple and all(type(item) is kind for item in value)


def _check_value(number: object, holders: list[int]) -> bool:
    if type(number) is not int or not 0 <= number < len(holders):
        raise MalformedPlanError("A protocol uses a value before anything gives it.")
    return True


def checked_plans(schedule: Schedule, plans: object, workers: Workers) -> list[Plan | PointerPlan]:
    """Return the received plans of a protocol, one for each run."""
    runs = schedule.runs()
    if not isinstance(plans, tuple) or len(plans) != len(runs):
        raise MalformedPlanError("A protocol has one plan for each run.")
    for plan, run in zip(plans, runs, strict=True):
        at_role = workers is not None and isinstance(plan, PointerPlan) and plan.location is workers[run.role]
        if not isinstance(plan, Plan) and not at_role:
            raise MalformedPlanError(f"A protocol runs plans of its roles, got a {type(plan).__name__}.")
    return list(plans)


def checked_state(schedule: Schedule, states: object, workers: Workers) -> list[list[torch.Tensor]]:
    """Return the received state of each role."""
    counts = [len(part) if type(part) is tuple else -1 for part in states] if isinstance(states, tuple) else None
    if not isinstance(states, tuple) or counts != list(schedule.states):
        raise MalformedPlanError("A protocol has a state for each role.")
    for role, part in enumerate(states):
        for tensor in part:
            if not isinstance(tensor, torch.Tensor):
                raise MalformedPlanError(f"The state of a role must be tensors, got a {type(tensor).__name__}.")
            pointer = pointer_in(tensor)
            if pointer is not None and (workers is None or pointer.location is not workers[role]):
                raise MalformedPlanError("The state of a role is at another worker.")
    return [list(part) for part in states]
