"""Programs: many protocols in one run, each step on given values or on results of earlier steps.

Programs of clients are data: the names of protocols, numbers of values, and plain numbers. Values are numbered: first
the given ones, then the results of each step, in order. On the wire an argument is a number or a string, or
`("value", number)`, or `("list", ...)` and `("tuple", ...)` of arguments.

Independent steps run at the same time, so that they share rounds; a value is dropped when the last step that needs it
has started.
"""

from __future__ import annotations

import collections
import dataclasses
import heapq
from collections.abc import Coroutine
from typing import Any

import torch

from syft.config import current
from syft.exceptions import ProtocolError
from syft.mpc.runtime.party import Batch, Party, is_deal
from syft.mpc.runtime.protocol_registry import PROTOCOLS, ProtocolSpec, protocol

NAME = "program"
MAX_DEPTH = 8
MAX_RESULTS = 1 << 16
# Limits the steps that run at the same time, and their elements: beyond that, computing takes longer than waiting, and
# more steps only need more memory.
TOGETHER = 32
ELEMENTS = 1 << 18
_PLAIN = frozenset({int, float, bool, str, type(None), torch.Size})


@dataclasses.dataclass(frozen=True, slots=True)
class Use:
    """An argument that is a value of the program, by its number."""

    number: int


@dataclasses.dataclass(slots=True)
class ProgramStep:
    """One step, read and checked.

    Attributes:
        entry: the protocol.
        args: its arguments, with uses in place of values.
        options: its named arguments.
        needs: the numbers of the values it uses, with repetitions.
        first: the number of its first result.
        count: the number of its results.
    """

    entry: ProtocolSpec
    args: tuple[Any, ...]
    options: dict[str, Any]
    needs: list[int]
    first: int
    count: int


def _read_argument(node: object, known: int, needs: list[int], depth: int = 0) -> Any:
    """Read one argument; it may use the first `known` values."""
    if type(node) in _PLAIN:
        return node
    if type(node) is not tuple or not node or depth > MAX_DEPTH:
        raise ProtocolError("An argument of a step must be a number, a string, a value, or a list of them.")
    kind, *items = node
    if kind == "value" and len(items) == 1:
        if type(items[0]) is not int or not 0 <= items[0] < known:
            raise ProtocolError("A step of a program uses a value that no earlier step returns.")
        needs.append(items[0])
        return Use(items[0])
    if kind not in ("list", "tuple"):
        raise ProtocolError("An argument of a step must be a number, a string, a value, or a list of them.")
    read = [_read_argument(item, known, needs, depth + 1) for item in items]
    return read if kind == "list" else tuple(read)


def _read_step(row: object, known: int, parties: int) -> ProgramStep:
    if type(row) is not tuple or len(row) != 4:
        raise ProtocolError("A step of a program has a name, arguments, options and a number of results.")
    name, args, options, count = row
    entry = PROTOCOLS.get(name) if type(name) is str else None
    if entry is None or name == NAME:
        raise ProtocolError(f"A step of a program is a protocol by its name, not {str(name)[:40]!r}.")
    if entry.helper and parties == 2:
        raise ProtocolError(f"{name} needs a helper, so it can't be a step of a program. Run it by itself.")
    if type(args) is not tuple or type(options) is not tuple or type(count) is not int or not 0 < count <= MAX_RESULTS:
        raise ProtocolError("A step of a program has a name, arguments, options and a number of results.")
    needs: list[int] = []
    named: dict[str, Any] = {}
    for pair in options:
        if type(pair) is not tuple or len(pair) != 2 or type(pair[0]) is not str:
            raise ProtocolError("The options of a step are pairs of a name and a value.")
        named[pair[0]] = _read_argument(pair[1], known, needs)
    return ProgramStep(entry, tuple([_read_argument(arg, known, needs) for arg in args]), named, needs, known, count)


def read(steps: object, outputs: object, given: int, parties: int) -> list[ProgramStep]:
    """Read the steps of a program that may come from anyone; with 0 parties, steps that need a helper are allowed."""
    limit = current().max_plan_operations
    if type(steps) is not tuple or len(steps) > limit:
        raise ProtocolError(f"A program has at most {limit} steps (syft.config: max_plan_operations).")
    known = given
    found = []
    for row in steps:
        found.append(_read_step(row, known, parties))
        known += found[-1].count
    if type(outputs) is not tuple or not 0 < len(outputs) <= MAX_RESULTS:
        raise ProtocolError(f"A program returns 1 to {MAX_RESULTS} values.")
    if not all(type(number) is int and 0 <= number < known for number in outputs):
        raise ProtocolError("A program returns a value that none of its steps makes.")
    return found


def fill(argument: Any, values: dict[int, Any]) -> Any:
    """Return an argument with values in place of their uses."""
    kind = type(argument)
    if kind is Use:
        return values[argument.number]
    if kind is tuple or kind is list:
        return kind([fill(item, values) for item in argument])
    return argument


class _Running:
    """A program while it runs, at one party."""

    def __init__(
        self, party: Party, given: tuple[Any, ...], steps: list[ProgramStep], outputs: tuple[int, ...]
    ) -> None:
        self.party = party
        self.steps = steps
        self.values: dict[int, Any] = dict(enumerate(given))
        self.uses = collections.Counter([*outputs, *[number for step in steps for number in step.needs]])
        self.missing = [0] * len(steps)
        self.waiting: dict[int, list[int]] = {}
        for index, step in enumerate(steps):
            for number in step.needs:
                if number >= len(given):
                    self.missing[index] += 1
                    self.waiting.setdefault(number, []).append(index)
        self.ready = [index for index, count in enumerate(self.missing) if not count]
        self.begun: dict[int, Coroutine[Any, Any, Any]] = {}
        self.elements: dict[int, int] = {}
        self.requests: dict[int, Any] = {}

    async def run(self) -> None:
        """Run all steps: ready steps at the same time, the first ones first."""
        try:
            self._begin()
            while self.requests:
                # Deals need no round, so all of them come before the next opening.
                turn = [index for index, request in self.requests.items() if is_deal(request)] or list(self.requests)
                requests = [self.requests.pop(index) for index in turn]
                replies = await Batch(requests) if len(requests) > 1 else [await requests[0]]
                for index, reply in zip(turn, replies, strict=True):
                    self._advance(index, reply)
                self._begin()
        finally:
            for coroutine in self.begun.values():
                coroutine.close()

    def _begin(self) -> None:
        while self.ready:
            size = self._size(self.ready[0])
            if self.begun and (len(self.begun) >= TOGETHER or sum(self.elements.values()) + size > ELEMENTS):
                return
            index = heapq.heappop(self.ready)
            step = self.steps[index]
            args, options = fill(step.args, self.values), {k: fill(v, self.values) for k, v in step.options.items()}
            for number in step.needs:
                self._used(number)
            self.elements[index] = size
            self.begun[index] = step.entry.function(self.party, *args, **options)
            self._advance(index, None)

    def _size(self, index: int) -> int:
        """Return the number of elements of a step's values."""
        return sum(self.values[number].numel() for number in self.steps[index].needs)

    def _used(self, number: int) -> None:
        self.uses[number] -= 1
        if not self.uses[number]:
            del self.values[number]

    def _advance(self, index: int, reply: Any) -> None:
        try:
            self.requests[index] = self.begun[index].send(reply)
        except StopIteration as stop:
            del self.begun[index], self.elements[index]
            self._end(self.steps[index], stop.value)

    def _end(self, step: ProgramStep, result: object) -> None:
        """Store the results of a step, and find the steps that are ready now."""
        results = result if isinstance(result, tuple | list) else (result,)
        if len(results) != step.count or not all(type(tensor) is torch.Tensor for tensor in results):
            raise ProtocolError(f"{step.entry.name} returned another number of results than the program states.")
        for number, tensor in enumerate(results, step.first):
            if self.uses[number]:
                self.values[number] = tensor
            for index in self.waiting.pop(number, ()):
                self.missing[index] -= 1
                if not self.missing[index]:
                    heapq.heappush(self.ready, index)


def _shape(*given: torch.Tensor, steps: tuple[Any, ...], outputs: tuple[int, ...]) -> list[Any]:
    """Return the shapes of a program's results, computed step by step."""
    values: dict[int, Any] = dict(enumerate(given))
    for step in read(steps, outputs, len(given), 0):
        args, options = fill(step.args, values), {k: fill(v, values) for k, v in step.options.items()}
        shapes = step.entry.shape(*args, **options)
        for number, shape in enumerate(shapes if isinstance(shapes, list) else [shapes], step.first):
            values[number] = torch.empty(shape, dtype=torch.int64, device="meta")
    return [values[number].shape for number in outputs]


def _deals(steps: tuple[Any, ...], outputs: object) -> bool:
    return any(PROTOCOLS[name].needs_dealer(dict(options)) for name, _, options, _ in steps)


@protocol(NAME, shape=_shape, rounds="those of its steps; steps that need not wait for each other share them",
          bytes="those of its steps", error="that of its steps", deals=_deals)  # fmt: skip
async def program(
    party: Party, *given: torch.Tensor, steps: tuple[Any, ...], outputs: tuple[int, ...]
) -> tuple[torch.Tensor, ...]:
    """Run steps, each a protocol by its name, on the given values and on results of earlier steps.

    Sees: the same as in its steps. Only the returned values are kept.
    """
    if not all(type(value) is torch.Tensor for value in given):
        raise ProtocolError("The given values of a program must be shares and plain tensors.")
    running = _Running(party, given, read(steps, outputs, len(given), party.count), outputs)
    await running.run()
    return tuple([running.values[number] for number in outputs])
