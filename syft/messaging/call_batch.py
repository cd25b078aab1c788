"""StepsMessage: a batch of small calls in one message, for clients that do not wait for each result.

A call with pointers and numbers only needs its name, the id of its result and its arguments. A batch of them is a flat
list of plain values, which msgpack reads and writes fast, so that most of the overhead is paid once per batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from syft.core.references import Ref
from syft.messaging.message import Message, Operation

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

# (ids released before it, 16 bytes each; whether autograd records it; wire name; id of its result;
# arguments: the 16 bytes of an id, or a number)
Step: TypeAlias = tuple[Any, ...]
ID_BYTES = 16
# The number of items before the arguments of a step.
HEAD = 4
# Limits of one message: calls, and arguments of one call.
MAX_STEPS = 256
MAX_ARGUMENTS = 16
_NUMBERS = frozenset({int, float, bool, type(None)})


@dataclasses.dataclass(frozen=True, slots=True)
class StepsMessage(Message):
    """Run these calls in order; a failed one does not stop the next."""

    contents: tuple[Step, ...]

    def operations(self) -> Iterator[Operation]:
        """Yield the calls as messages of their own."""
        return map(operation_of, self.contents)

    @staticmethod
    def simplify(worker: BaseWorker | None, message: Any) -> tuple[Any, ...]:
        """Return all steps in one flat tuple, each after its length."""
        flat: list[Any] = []
        for step in message.contents:
            flat.append(len(step))
            flat += step
        return tuple(flat)

    @classmethod
    def detail(cls, worker: BaseWorker | None, payload: tuple[Any, ...]) -> StepsMessage:
        """Rebuild the steps, and check each part."""
        steps = []
        position, end = 0, len(payload)
        while position < end:
            length = payload[position]
            if type(length) is not int or not HEAD <= length <= HEAD + MAX_ARGUMENTS or position + length >= end:
                raise TypeError("a step is cut short, or too long")
            step = payload[position + 1 : position + 1 + length]
            _check(step)
            steps.append(step)
            position += 1 + length
        if len(steps) > MAX_STEPS:
            raise TypeError(f"{len(steps)} steps are too many for one message")
        return cls(tuple(steps))


def _check(step: Step) -> None:
    released, grad_enabled, name, result = step[:HEAD]
    if type(released) is not bytes or len(released) % ID_BYTES or type(grad_enabled) is not bool:
        raise TypeError("a step needs released ids and a flag")
    if type(name) is not str or type(result) is not bytes or len(result) != ID_BYTES:
        raise TypeError("a step needs a name and an id for its result")
    for argument in step[HEAD:]:
        kind = type(argument)
        if kind not in _NUMBERS and (kind is not bytes or len(argument) != ID_BYTES):
            raise TypeError("an argument of a step is an id or a number")


def write_ids(obj_ids: Iterable[Any]) -> bytes | None:
    """Return the bytes of several ids; None if one of them is not a 128-bit number."""
    try:
        return b"".join([obj_id.to_bytes(ID_BYTES, "big") for obj_id in obj_ids])
    except (AttributeError, OverflowError):
        return None


def read_id(written: bytes) -> int:
    """Return the id of 16 bytes."""
    return int.from_bytes(written, "big")


def read_ids(written: bytes) -> list[int]:
    """Return the ids in bytes."""
    return [read_id(written[at : at + ID_BYTES]) for at in range(0, len(written), ID_BYTES)]


def operation_of(step: Step) -> Operation:
    """Return a step as a message of its own."""
    _, grad_enabled, name, result, *arguments = step
    args = [Ref(read_id(value)) if type(value) is bytes else value for value in arguments]
    return Operation(name, None, tuple(args), {}, (read_id(result),), grad_enabled)
