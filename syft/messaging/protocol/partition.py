"""Partitions one recording of all roles into plans of one role each, as few as possible.

Every value belongs to one role: inputs and state to the role that provides them, results to the role of their
operands. A call on values of two roles is refused, so a value crosses only where the function sends it.

A crossing is a copy made by the sender, then a move; a value that arrives is one level above the copy. Calls keep
their order within a role, so the level of a call is that of the last one of its role, or that of a value it needs if
that is higher. The calls of one role at one level become one plan. A plan that sends nothing waits for the next one of
its role and becomes part of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from syft.core.callsite import describe_line
from syft.core.references import Ref
from syft.core.trees import iter_tensors
from syft.exceptions import PlanBuildError
from syft.messaging.message import Operation
from syft.messaging.plan.commands import GRAD_MODE, NUMBERS, OPTIMIZER_STEP
from syft.messaging.plan.plan import Plan
from syft.messaging.plan.program import Argument, Program, map_pattern
from syft.messaging.plan.record.build import PlanRecording
from syft.messaging.protocol.role import Crossings
from syft.messaging.protocol.schedule import Schedule, ScheduledMove, ScheduledRun, ScheduledStep
from syft.tensors.placeholder import PlaceHolder

CLONE, DETACH = "torch.Tensor.clone", "torch.Tensor.detach"
# Calls that change the shape of their tensor in place.
_RESHAPES = ("t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_", "__set__", "set_", "resize_")


class Ownership:
    """The role of each placeholder; one without operands belongs to the first role that uses it."""

    def __init__(self, roles: tuple[str, ...]) -> None:
        self.roles = roles
        self._parents: dict[int, int] = {}
        self._labels: dict[int, int] = {}

    def _root(self, key: int) -> int:
        while (parent := self._parents.setdefault(key, key)) != key:
            self._parents[key] = key = self._parents[parent]
        return key

    def role_of(self, placeholder: PlaceHolder) -> int | None:
        """Return the role of a placeholder, if it has one already."""
        return self._labels.get(self._root(id(placeholder)))

    def assign(self, placeholder: PlaceHolder, role: int) -> None:
        """Assign a placeholder, and all that was joined with it, to a role, unless they have one."""
        self._labels.setdefault(self._root(id(placeholder)), role)

    def join(self, placeholders: Iterable[PlaceHolder], line: tuple[str, int]) -> None:
        """Record that placeholders belong to one role; raises if they have different roles already."""
        roots = list(dict.fromkeys(self._root(id(p)) for p in placeholders))
        owners = list(dict.fromkeys(self._labels[root] for root in roots if root in self._labels))
        if len(owners) > 1:
            one, other = (self.roles[number] for number in owners[:2])
            raise PlanBuildError(
                f"A call on tensors (or sizes) of {one} and {other}",
                describe_line(line),
                f"Send one over first: tensor.send({other}). A tensor from outside belongs to the first role that "
                f"uses it; each gets its own with {one}.load(tensor) and {other}.load(tensor).",
            )
        for root in roots[1:]:
            self._parents[root] = roots[0]
        if owners:
            self._labels[roots[0]] = owners[0]


class PartitionedCall:
    """One operation of the recording, with the mode of autograd it runs in and the line of the user's code."""

    __slots__ = ("line", "mode", "operands", "operation", "results")

    def __init__(self, operation: Operation, mode: bool | None, line: tuple[str, int]) -> None:
        self.operation = operation
        self.mode = mode
        self.line = line
        self.operands = list(iter_tensors((operation.cmd_args, operation.cmd_kwargs)))
        self.results = list(iter_tensors(operation.return_ids))


@dataclasses.dataclass(slots=True)
class Segment:
    """The calls of one role that run with one message."""

    role: int
    calls: list[PartitionedCall] = dataclasses.field(default_factory=list)
    departures: list[PartitionedCall] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Partitioner:
    """Partitions one recording."""

    name: str
    roles: tuple[str, ...]
    recording: PlanRecording
    crossings: Crossings
    inputs: tuple[int, ...]  # the number of inputs of each role
    declared: list[int]  # the role of each declared tensor of the state

    def __post_init__(self) -> None:
        self.program = self.recording.program
        self.owners = Ownership(self.roles)
        self.outputs = self.program.outputs
        self.calls = list(_calls(self.recording))
        # Numbers can't go from plan to plan: a plan that needs one reads it again.
        self.readers = {id(r): c for c in self.calls if c.operation.cmd_name in NUMBERS for r in c.results}

    def partition(self) -> tuple[Schedule, list[Plan], list[list[torch.Tensor]]]:
        """Return the schedule, the plans of its runs, and the state of each role."""
        self._copy_passed_results()
        self._assign_owners()
        state = self._state_by_role()
        segments = _merged(self._by_level())
        numbers = {id(p): n for n, p in enumerate((*self.program.inputs, *(p for part in state for p in part)))}
        steps, plans = self._steps(segments, numbers)
        schedule = Schedule(
            self.roles,
            self.inputs,
            tuple(len(part) for part in state),
            tuple(steps),
            map_pattern(lambda p: Ref(numbers[id(p)]), self.outputs),
        )
        return schedule, plans, [[p.child for p in part] for part in state]

    # --- ownership -------------------------------------------------------------------------------------------

    def _copy_passed_results(self) -> None:
        """Return inputs and state as copies: fetching a result must not remove them from their role."""
        passed = {id(p) for p in (*self.program.inputs, *self.program.state)}
        copies: dict[int, PlaceHolder] = {}

        def copied(placeholder: PlaceHolder) -> PlaceHolder:
            if "#number" in placeholder.tags:
                raise PlanBuildError("A size as a result of a protocol", hint="Read it from the shape of a result.")
            if id(placeholder) not in passed:
                return placeholder
            if id(placeholder) not in copies:
                copies[id(placeholder)] = PlaceHolder(tags={"#inner"})
                copy: Any = copies[id(placeholder)]
                operation = Operation(CLONE, None, (placeholder,), {}, (copy,))
                self.calls.append(PartitionedCall(operation, None, ("", 0)))
            return copies[id(placeholder)]

        self.outputs = map_pattern(copied, self.outputs)

    def _is_arrival(self, call: PartitionedCall) -> bool:
        """Say whether this call is the arrival of a value, and not a later change of it in place."""
        if call.operation.cmd_name != DETACH or id(call.results[0]) not in self.crossings.arrivals:
            return False
        return call.operands[0] is self.crossings.sent[id(call.results[0])]

    def _assign_owners(self) -> None:
        owners = self.owners
        placed = iter(self.program.inputs)
        for role, count in enumerate(self.inputs):
            for _ in range(count):
                owners.assign(next(placed), role)
        for placeholder, role in zip(self.program.state, self.declared, strict=False):
            owners.assign(placeholder, role)
        for placeholder in self.program.state[len(self.declared) :]:
            if id(placeholder.child) in self.crossings.loaded:
                owners.assign(placeholder, self.crossings.loaded[id(placeholder.child)])
        arrivals = [call for call in self.calls if self._is_arrival(call)]
        for call in arrivals:
            owners.assign(call.results[0], self.crossings.arrivals[id(call.results[0])])
        for call in self.calls:
            if not self._is_arrival(call):
                owners.join((*call.operands, *call.results), call.line)
        for call in arrivals:  # a value without operands is computed where it is needed
            if owners.role_of(call.operands[0]) is None:
                owners.assign(call.operands[0], self.crossings.arrivals[id(call.results[0])])

    def _owner(self, placeholder: PlaceHolder) -> int:
        """Return the role of a value; one that no role needs belongs to the first."""
        return self.owners.role_of(placeholder) or 0

    def _state_by_role(self) -> list[list[PlaceHolder]]:
        state: list[list[PlaceHolder]] = [[] for _ in self.roles]
        for placeholder in self.program.state:
            state[self._owner(placeholder)].append(placeholder)
        return state

    # --- order --------------------------------------------------------------------------------------------------

    def _by_level(self) -> list[Segment]:
        """Return the calls by level and role, in an order in which every call has its operands."""
        last = [0] * len(self.roles)
        arrived: dict[int, int] = {}
        found: dict[tuple[int, int], Segment] = {}
        for call in self.calls:
            if self._is_arrival(call):
                source, target = call.operands[0], call.results[0]
                if self._owner(source) != self._owner(target):
                    role = self._owner(source)
                    # The copy that leaves was made by the call before, so at the level its role is at now.
                    found[last[role], role].departures.append(call)
                    arrived[id(target)] = last[role] + 1
                    continue
            role = next(map(self._owner, (*call.operands, *call.results)), 0)
            last[role] = max([last[role], *(arrived.get(id(operand), 0) for operand in call.operands)])
            key = (last[role], role)
            found.setdefault(key, Segment(role)).calls.append(call)
        return [found[key] for key in sorted(found)]

    # --- inputs and outputs of each run ------------------------------------------------------------------------

    def _steps(self, segments: list[Segment], numbers: dict[int, int]) -> tuple[list[ScheduledStep], list[Plan]]:
        bodies = [list(self._body(segment)) for segment in segments]
        needed = self._needed_later(segments, bodies)
        steps: list[ScheduledStep] = []
        plans: list[Plan] = []
        for position, segment in enumerate(segments):
            body = bodies[position]
            inputs = _free(body)
            outputs = [p for p in _bound(body) if id(p) in needed[position]]
            for placeholder in outputs:
                numbers.setdefault(id(placeholder), len(numbers))
            plans.append(_plan(f"{self.name}.{self.roles[segment.role]}.{position}", body, inputs, outputs))
            used, computed = (tuple(numbers[id(p)] for p in values) for values in (inputs, outputs))
            steps.append(ScheduledRun(segment.role, used, computed))
            for call in segment.departures:
                source, target = call.operands[0], call.results[0]
                numbers[id(target)] = len(numbers)
                steps.append(ScheduledMove(numbers[id(source)], numbers[id(target)], self._owner(target)))
        return steps, plans

    def _needed_later(self, segments: list[Segment], bodies: list[list[PartitionedCall]]) -> list[set[int]]:
        """Return, for each segment, the values that something after it needs."""
        needed = {id(p) for p in iter_tensors(self.outputs)}
        found: list[set[int]] = []
        for segment, body in zip(reversed(segments), reversed(bodies), strict=True):
            found.append(needed | {id(call.operands[0]) for call in segment.departures})
            needed = needed | {id(p) for p in _free(body)}
        return found[::-1]

    def _body(self, segment: Segment) -> Iterator[PartitionedCall]:
        """Yield the calls of a segment, with the numbers they need read again and the mode of autograd set."""
        known: set[int] = set()
        mode: bool | None = None
        for call in segment.calls:
            for each in (*self._numbers_for(call, known), call):
                if each.mode is not mode:
                    mode = each.mode
                    yield PartitionedCall(Operation(GRAD_MODE, None, (mode,), {}, ()), mode, each.line)
                known |= {id(result) for result in each.results}
                yield each

    def _numbers_for(self, call: PartitionedCall, known: set[int]) -> Iterator[PartitionedCall]:
        for operand in call.operands:
            reader = self.readers.get(id(operand))
            if reader is None or id(operand) in known:
                continue
            self._refuse_reshaped(reader)
            known.add(id(operand))
            yield from self._numbers_for(reader, known)
            yield reader

    def _refuse_reshaped(self, reader: PartitionedCall) -> None:
        """Refuse to read a size again from a tensor whose shape changes in place."""
        tensors = {id(p) for p in reader.operands if "#number" not in p.tags}
        for call in self.calls:
            last = call.operation.cmd_name.rpartition(".")[2]
            if last in _RESHAPES and call.operands and id(call.operands[0]) in tensors:
                raise PlanBuildError(
                    "A size of a tensor that changes its shape in place",
                    describe_line(reader.line),
                    "Use x.t() or x.squeeze() instead of x.t_() or x.squeeze_().",
                )


def _calls(recording: PlanRecording) -> Iterator[PartitionedCall]:
    """Yield the operations; those that set the mode of autograd become the mode of those after them."""
    mode: bool | None = None
    for operation, line in zip(recording.program.operations, recording.lines, strict=True):
        if operation.cmd_name == OPTIMIZER_STEP:
            raise PlanBuildError(
                "The step of an optimizer in a protocol",
                describe_line(line),
                "Write the update with torch calls: w.sub_(rate * gradient) under torch.no_grad().",
            )
        if operation.cmd_name == GRAD_MODE:
            mode = operation.cmd_args[0]
        else:
            yield PartitionedCall(operation, mode, line)


def _merged(segments: list[Segment]) -> list[Segment]:
    """Merge each segment that sends nothing into the next one of its role."""
    merged: list[Segment] = []
    following: dict[int, Segment] = {}
    for segment in reversed(segments):
        later = following.get(segment.role)
        if later is not None and not segment.departures:
            later.calls = segment.calls + later.calls
            continue
        merged.append(segment)
        following[segment.role] = segment
    return merged[::-1]


def _free(body: list[PartitionedCall]) -> list[PlaceHolder]:
    """Return the placeholders that calls use before any of them has computed one."""
    bound: set[int] = set()
    found: dict[int, PlaceHolder] = {}
    for call in body:
        for operand in call.operands:
            if id(operand) not in bound:
                found.setdefault(id(operand), operand)
        bound |= {id(result) for result in call.results}
    return list(found.values())


def _bound(body: list[PartitionedCall]) -> list[PlaceHolder]:
    """Return the placeholders that calls compute, except numbers."""
    results = {id(result): result for call in body for result in call.results}
    return [result for result in results.values() if "#number" not in result.tags]


def _plan(name: str, body: list[PartitionedCall], inputs: list[PlaceHolder], outputs: list[PlaceHolder]) -> Plan:
    """Make a plan of calls, with its own placeholders."""
    proxies: dict[int, PlaceHolder] = {}

    def proxy(placeholder: PlaceHolder) -> PlaceHolder:
        return proxies.setdefault(id(placeholder), PlaceHolder(tags={"#inner"}))

    operations = tuple(
        dataclasses.replace(
            call.operation,
            cmd_args=map_pattern(proxy, call.operation.cmd_args),
            cmd_kwargs=map_pattern(proxy, call.operation.cmd_kwargs),
            return_ids=map_pattern(proxy, call.operation.return_ids),
        )
        for call in body
    )
    taken, returned = tuple(map(proxy, inputs)), tuple(map(proxy, outputs))
    arguments = tuple(Argument(None, placeholder) for placeholder in taken)
    plan = Plan(name=name)
    plan._install(Program(arguments, taken, (), operations, returned[0] if len(returned) == 1 else returned))
    return plan
