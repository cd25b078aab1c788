"""Writes simplified values as protobuf messages, and reads them back.

A simplified value is what `msgpack.serde` makes of an object: each object is a tuple that begins with its wire code.
In a message it is a Value. Its kind is a protobuf scalar, the typed message of its wire code, or a Composite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syft.exceptions import SerdeError
from syft.serde.buffer import Buffer
from syft.serde.msgpack.frames import MAX_INT_BYTES, ReceivedFrames
from syft.serde.msgpack.native_serde import INLINE_BYTES
from syft.serde.msgpack.serde import MAX_DEPTH
from syft.serde.protobuf.envelope import parse, to_bytes
from syft.serde.protobuf.fields import read_fields, type_name, write_fields
from syft.serde.protobuf.proto import signed_bytes, signed_int
from syft.serde.protobuf.schema import syft_pb2
from syft.serde.protobuf.typed_messages import BY_MESSAGE, BY_NAME, KINDS, MessageKind

if TYPE_CHECKING:
    from google.protobuf.message import Message

_pb: Any = syft_pb2

# Protobuf reads at most a hundred nested messages, and one level of objects takes two. So an object at this depth is
# serialized to bytes, which are parsed separately, and so on below it.
LEVELS_IN_ONE_PIECE = 32
# Kinds of Value whose field is the value itself.
_PLAIN_KINDS = frozenset({"boolean", "integer", "real", "text", "data"})


def _write_int(target: Message, number: int) -> None:
    if -(2**63) <= number < 2**63:
        target.integer = number
        return
    size = number.bit_length() // 8 + 1
    if size > MAX_INT_BYTES:
        raise SerdeError(f"An int of {size} bytes can't be serialized. The maximum is {MAX_INT_BYTES}.")
    target.big_integer = signed_bytes(number)


def _write_text(target: Message, text: str) -> None:
    try:
        target.text = text
    except (ValueError, UnicodeError) as error:
        raise SerdeError(f"A string can't be serialized: {str(error)[:80]}.") from error


class Writer:
    """Writes simplified values into messages; long buffers go to `frames`, or into the message if it is None."""

    __slots__ = ("frames", "top")

    def __init__(self, frames: list[Buffer] | None) -> None:
        self.frames = frames
        self.top = 0  # the depth at which the current piece begins

    def value(self, target: Message, value: Any, depth: int = 0) -> None:
        """Write a value into a Value."""
        cls = type(value)
        if cls is tuple:
            self._object(target, value, depth)
        elif value is None:
            target.none = 0
        elif cls is bool:
            target.boolean = value
        elif cls is int:
            _write_int(target, value)
        elif cls is float:
            target.real = value
        elif cls is str:
            _write_text(target, value)
        elif cls is bytes:
            target.data = value
        else:
            raise SerdeError(f"A {cls.__name__} can't be serialized where an object is needed.")

    def part(self, target: Message, part: Any, depth: int) -> None:
        """Write a part of an object into a Value."""
        if type(part) is Buffer:
            self.buffer(target.buffer, part)
        else:
            self.value(target, part, depth)

    def buffer(self, target: Message, part: Any) -> None:
        """Write a buffer into a Bytes message; a long one becomes a frame."""
        if type(part) is not Buffer:
            raise SerdeError(f"{target.DESCRIPTOR.name} needs a buffer, got {type_name(part)}.")
        if self.frames is None or len(part) <= INLINE_BYTES:
            target.inline = bytes(part.view)
        else:
            target.frame = len(self.frames)
            self.frames.append(part)

    def _object(self, target: Message, value: tuple[Any, ...], depth: int) -> None:
        if depth - self.top >= LEVELS_IN_ONE_PIECE:
            top, self.top = self.top, depth
            piece = _pb.Value()
            self._object(piece, value, depth)
            target.packed = to_bytes(piece)
            self.top = top
            return
        kind = KINDS.get(value[0])
        if kind is None:
            self.composite(target.composite, value, depth)
        else:
            self.fill(getattr(target, kind.name), value, kind, depth)

    def composite(self, target: Message, value: tuple[Any, ...], depth: int) -> None:
        """Write an object into a Composite."""
        target.code = value[0]
        add = target.parts.add
        for part in value[1:]:
            self.part(add(), part, depth + 1)

    def fill(self, target: Message, value: tuple[Any, ...], kind: MessageKind, depth: int) -> None:
        """Write an object into its typed message."""
        write_fields(kind.fields, self, target, kind.layout.split(value[1:]), depth + 1)

    def typed(self, target: Message, value: Any, depth: int) -> None:
        """Write an object into a message that is a field of another one."""
        kind = KINDS.get(value[0]) if type(value) is tuple else None
        if kind is None or not isinstance(target, kind.message):
            raise SerdeError(f"A {target.DESCRIPTOR.name} is needed, got a {type_name(value)}.")
        self.fill(target, value, kind, depth)


class Reader:
    """Reads simplified values from untrusted messages; `frames` are their long buffers, and each is used once."""

    __slots__ = ("frames", "top")

    def __init__(self, frames: list[memoryview | None]) -> None:
        self.frames = ReceivedFrames(frames)
        self.top = 0  # the depth at which the current piece begins

    def value(self, message: Message, depth: int = 0) -> Any:
        """Read a Value."""
        kind = message.WhichOneof("kind")
        if kind in _PLAIN_KINDS:
            return getattr(message, kind)
        if kind == "none":
            return _read_none(message)
        if kind == "big_integer":
            return _read_big_int(message)
        if depth >= MAX_DEPTH:
            raise SerdeError(f"The message is nested deeper than {MAX_DEPTH} levels.")
        if kind == "packed":
            # At other levels a sender could make the reader parse the same bytes many times.
            if depth - self.top < LEVELS_IN_ONE_PIECE:
                raise SerdeError("The message holds a packed value at a level without packed values.")
            top, self.top = self.top, depth
            value = self.value(parse(_pb.Value, message.packed), depth)
            self.top = top
            return value
        if kind == "composite":
            return self.composite(message.composite, depth)
        typed = BY_NAME.get(kind)
        if typed is not None:
            return self.fill(getattr(message, kind), typed, depth)
        if kind is None:
            raise SerdeError("The message holds a value without a kind; its sender is not compatible.")
        raise SerdeError(f"The message holds a bare {kind} value where an object is needed.")

    def part(self, message: Message, depth: int) -> Any:
        """Read a part of an object: as `value`, or a view of bytes."""
        if message.WhichOneof("kind") == "buffer":
            return self.buffer(message.buffer)
        return self.value(message, depth)

    def buffer(self, message: Message) -> memoryview:
        """Return the buffer of a Bytes message."""
        kind = message.WhichOneof("kind")
        if kind == "inline":
            return memoryview(message.inline)
        if kind is None:
            raise SerdeError("The message holds a buffer without bytes; its sender is not compatible.")
        return self.frames.take(message.frame)

    def composite(self, message: Message, depth: int) -> tuple[Any, ...]:
        """Read an object from a Composite."""
        return (message.code, *[self.part(part, depth + 1) for part in message.parts])

    def fill(self, message: Message, kind: MessageKind, depth: int) -> tuple[Any, ...]:
        """Read an object from its typed message."""
        return (kind.code, *kind.layout.join(read_fields(kind.fields, self, message, depth + 1)))

    def typed(self, message: Message, depth: int) -> tuple[Any, ...]:
        """Read an object from a message that is a field of another one."""
        if depth >= MAX_DEPTH:
            raise SerdeError(f"The message is nested deeper than {MAX_DEPTH} levels.")
        return self.fill(message, BY_MESSAGE[message.DESCRIPTOR.name], depth)


def _read_none(message: Message) -> None:
    if message.none:
        raise SerdeError("The message holds a None with a value; its sender is not compatible.")


def _read_big_int(message: Message) -> int:
    number = signed_int(message.big_integer, MAX_INT_BYTES)
    if -(2**63) <= number < 2**63:
        raise SerdeError("The message holds a small int as a large one; its sender is not compatible.")
    return number
