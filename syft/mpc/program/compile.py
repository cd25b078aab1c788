"""Compile recorded steps to messages, one to each party if possible."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from syft.config import current
from syft.core.trees import iter_tensors, map_tensors, register_leaf
from syft.exceptions import SyftError
from syft.mpc.protocols.program import NAME
from syft.mpc.runtime import client
from syft.mpc.runtime.protocol_registry import entry_of
from syft.mpc.runtime.recording import RecordedStep, ShareRecording, Value
from syft.tensors.additive_shared import AdditiveSharingTensor

register_leaf(Value)
Shares = dict[Any, Any]


class NotOneProgramError(SyftError):
    """A recording can't run as one program."""


@dataclasses.dataclass(slots=True)
class Part:
    """The part of a program that is one message to each party.

    Attributes:
        name: the protocol: a program, or a single step that needs a helper.
        args: its arguments, with values instead of shared tensors.
        options: its keyword arguments.
        outputs: the values it returns.
        done: the values that are not needed after it.
    """

    name: str
    args: tuple[Any, ...]
    options: dict[str, Any]
    outputs: list[Value]
    done: list[Value] = dataclasses.field(default_factory=list)


class Assembled:
    """Compiled steps, which can be run any number of times; steps that no output needs are left out."""

    def __init__(self, recording: ShareRecording, outputs: Iterable[Value]) -> None:
        self.outputs = list(dict.fromkeys(outputs))
        steps = _needed(recording.steps, self.outputs)
        if len({step.parties for step in steps}) > 1:
            raise NotOneProgramError("Tensors of different parties can't be in one program.")
        providers = {getattr(step.provider, "id", step.provider): step.provider for step in steps}
        providers.pop(None, None)
        if len(providers) > 1:
            raise NotOneProgramError("Tensors of different crypto providers can't be in one program.")
        self.provider = next(iter(providers.values()), None)
        used = dict.fromkeys([*[v for step in steps for v in _values((step.args, step.options))], *self.outputs])
        self.inputs = [value for value in used if value.shares is not None]
        self.parts = list(_cut(steps, self.outputs))
        _let_go(self.parts, self.outputs)

    def run(self, inputs: dict[Value, Shares], model: AdditiveSharingTensor) -> dict[Value, Shares]:
        """Send the messages; returns the pointers to the results."""
        shares = dict(inputs)
        for part in self.parts:
            args = map_tensors(lambda leaf: model.like(shares[leaf]) if type(leaf) is Value else leaf, part.args)
            first = next(leaf for leaf in iter_tensors(args) if isinstance(leaf, AdditiveSharingTensor))
            shapes = [value.shape for value in part.outputs]
            made = client.ask(entry_of(part.name), args, part.options, first, self.provider, shapes)
            for value, link in zip(part.outputs, made, strict=True):
                shares[value] = link.child
            for value in part.done:
                del shares[value]
        return {value: shares[value] for value in self.outputs}


def _values(tree: object) -> Iterator[Value]:
    return (leaf for leaf in iter_tensors(tree) if type(leaf) is Value)


def _needed(steps: list[RecordedStep], outputs: list[Value]) -> list[RecordedStep]:
    """Return the steps that the outputs depend on."""
    wanted = set(outputs)
    kept = []
    for step in reversed(steps):
        if not wanted.isdisjoint(step.results):
            kept.append(step)
            wanted.update(_values((step.args, step.options)))
    return kept[::-1]


def _cut(steps: list[RecordedStep], outputs: list[Value]) -> Iterator[Part]:
    """Divide steps into programs: a step that needs a helper, and so other parties, is a part by itself."""
    after = _last_uses(steps, outputs)
    limit = current().max_plan_operations
    together: list[RecordedStep] = []
    for number, step in enumerate(steps):
        alone = entry_of(step.name).helper and len(step.parties) == 2
        if together and (alone or len(together) == limit):
            yield _program(together, [v for s in together for v in s.results if after.get(v, -1) >= number])
            together = []
        if alone:
            yield Part(step.name, step.args, step.options, step.results)
        else:
            together.append(step)
    if together:
        yield _program(together, [v for s in together for v in s.results if after.get(v, -1) >= len(steps)])


def _last_uses(steps: list[RecordedStep], outputs: list[Value]) -> dict[Value, int]:
    """Return the index of the last step that needs each value; outputs are needed after all steps."""
    last = {value: number for number, step in enumerate(steps) for value in _values((step.args, step.options))}
    return last | dict.fromkeys(outputs, len(steps))


def _program(steps: list[RecordedStep], outputs: list[Value]) -> Part:
    """Encode steps as arguments of `protocols.program`."""
    made = {id(value) for step in steps for value in step.results}
    leaves = iter_tensors([(step.args, step.options) for step in steps])
    given = {id(leaf): leaf for leaf in leaves if id(leaf) not in made}
    numbers = {key: number for number, key in enumerate(given)}
    for step in steps:
        for value in step.results:
            numbers[id(value)] = len(numbers)
    rows = tuple(
        (
            step.name,
            tuple([_written(arg, numbers) for arg in step.args]),
            tuple([(name, _written(value, numbers)) for name, value in step.options.items()]),
            len(step.results),
        )
        for step in steps
    )
    wanted = tuple([numbers[id(value)] for value in outputs])
    return Part(NAME, tuple(given.values()), {"steps": rows, "outputs": wanted}, outputs)


def _written(argument: object, numbers: dict[int, int]) -> object:
    if type(argument) is Value or isinstance(argument, torch.Tensor):
        return ("value", numbers[id(argument)])
    if type(argument) is torch.Size or not isinstance(argument, tuple | list):
        return argument
    return ("list" if isinstance(argument, list) else "tuple", *[_written(item, numbers) for item in argument])


def _let_go(parts: list[Part], outputs: list[Value]) -> None:
    """Set the values of each part that are needed for the last time."""
    needed = set(outputs)
    for part in reversed(parts):
        for value in [*part.outputs, *_values(part.args)]:
            if value not in needed:
                needed.add(value)
                part.done.append(value)
