"""Writes objects as protobuf messages and rebuilds them, by the entries of the registry.

Every object is a Value. Its kind is a protobuf scalar, the typed message of its wire code, or a Composite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from syft.exceptions import SerdeError, SyftError
from syft.serde.buffer import Buffer
from syft.serde.msgpack.frames import MAX_INT_BYTES
from syft.serde.msgpack.native_serde import INLINE_BYTES, WITHOUT_BUFFERS
from syft.serde.msgpack.serde import MAX_DEPTH, excerpt
from syft.serde.protobuf.envelope import parse, to_bytes
from syft.serde.protobuf.fields import read_fields, write_fields
from syft.serde.protobuf.preview import PLAIN_KINDS, preview
from syft.serde.protobuf.proto import signed_bytes, signed_int
from syft.serde.protobuf.schema import syft_pb2
from syft.serde.protobuf.typed_messages import BY_MESSAGE, BY_NAME, KINDS, PLAIN, MessageKind, MessageLayout
from syft.serde.registry import BY_CODE, BY_TYPE, RegisteredType, row_for

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from syft.workers.base import BaseWorker

_pb: Any = syft_pb2

# Protobuf reads at most a hundred nested messages, and one level of objects takes two. So an object at this depth is
# serialized to bytes, which are parsed separately, and so on below it.
LEVELS_IN_ONE_PIECE = 32


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


_ATOMS = frozenset({type(None), bool, int, float, str})


class Writer:
    """Writes objects into messages.

    Args:
        worker: the worker that sends them.
        frames: receives long buffers; None to write them into the message.
    """

    __slots__ = ("frames", "top", "worker")

    def __init__(self, worker: BaseWorker | None, frames: list[Buffer] | None) -> None:
        self.worker = worker
        self.frames = frames
        self.top = 0  # the depth at which the current piece begins

    def value(self, target: Message, obj: Any, depth: int = 0) -> None:
        """Write an object into a Value."""
        cls = type(obj)
        if obj is None:
            target.none = 0
        elif cls is bool:
            target.boolean = obj
        elif cls is int:
            _write_int(target, obj)
        elif cls is float:
            target.real = obj
        elif cls is str:
            _write_text(target, obj)
        elif cls is bytes and len(obj) <= INLINE_BYTES:
            target.data = obj
        else:
            self.level(target, obj, BY_TYPE.get(cls) or row_for(cls), depth)

    def part(self, target: Message, obj: Any, depth: int) -> None:
        """Write a part of an object into a Value."""
        if type(obj) is Buffer:
            self.buffer(target.buffer, obj)
        else:
            self.value(target, obj, depth)

    def buffer(self, target: Message, obj: Any) -> None:
        """Write a buffer into a Bytes message; a long one becomes a frame."""
        if type(obj) is not Buffer:
            raise SerdeError(f"{target.DESCRIPTOR.name} needs a buffer, got {type(obj).__name__}.")
        if self.frames is None or len(obj) <= INLINE_BYTES:
            target.inline = bytes(obj.view)
        else:
            target.frame = len(self.frames)
            self.frames.append(obj)

    def level(self, target: Message, obj: object, row: RegisteredType, depth: int) -> None:
        """Write an object of a registered type into a Value."""
        if depth >= MAX_DEPTH:
            raise SerdeError(f"An object is nested deeper than {MAX_DEPTH} levels or contains itself.")
        if depth - self.top >= LEVELS_IN_ONE_PIECE:
            top, self.top = self.top, depth
            piece = _pb.Value()
            self._level(piece, obj, row, depth)
            target.packed = to_bytes(piece)
            self.top = top
        else:
            self._level(target, obj, row, depth)

    def _level(self, target: Message, obj: Any, row: RegisteredType, depth: int) -> None:
        kind = KINDS.get(row.code)
        if kind is None:
            self.composite(target.composite, obj, row, depth)
        else:
            self.fill(getattr(target, kind.name), obj, kind, row, depth)

    def composite(self, target: Message, obj: object, row: RegisteredType, depth: int) -> None:
        """Write an object into a Composite."""
        target.code = row.code
        add = target.parts.add
        for part in PLAIN.split(row, self.worker, obj):
            self.part(add(), part, depth + 1)

    def fill(self, target: Message, obj: object, kind: MessageKind, row: RegisteredType, depth: int) -> None:
        """Write an object into its typed message."""
        write_fields(kind.fields, self, target, kind.layout.split(row, self.worker, obj), depth + 1)

    def typed(self, target: Message, obj: object, depth: int) -> None:
        """Write an object into a message that is a field of another one."""
        cls = type(obj)
        row = None if cls in _ATOMS else BY_TYPE.get(cls) or row_for(cls)
        kind = None if row is None else KINDS.get(row.code)
        if row is None or kind is None or not isinstance(target, kind.message):
            raise SerdeError(f"A {target.DESCRIPTOR.name} is needed, got a {cls.__name__}.")
        if depth >= MAX_DEPTH:
            raise SerdeError(f"An object is nested deeper than {MAX_DEPTH} levels or contains itself.")
        self.fill(target, obj, kind, row, depth)


class Reader:
    """Rebuilds objects from untrusted messages.

    Args:
        worker: the worker that receives them.
        frames: the long buffers of the message; each is used once.
    """

    __slots__ = ("frames", "top", "unused", "worker")

    def __init__(self, worker: BaseWorker | None, frames: list[memoryview | None]) -> None:
        self.worker = worker
        self.frames = frames
        self.unused = len(frames)
        self.top = 0  # the depth at which the current piece begins

    def value(self, message: Message, depth: int = 0) -> Any:
        """Rebuild the object in a Value."""
        kind = message.WhichOneof("kind")
        if kind in PLAIN_KINDS:
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
            obj = self.value(parse(_pb.Value, message.packed), depth)
            self.top = top
            return obj
        if kind == "composite":
            return self.composite(message.composite, depth)
        typed = BY_NAME.get(kind)
        if typed is not None:
            return self.fill(getattr(message, kind), typed, depth)
        if kind is None:
            raise SerdeError("The message holds a value without a kind; its sender is not compatible.")
        raise SerdeError(f"The message holds a bare {kind} value where an object is needed.")

    def part(self, message: Message, depth: int) -> Any:
        """Rebuild a part of an object: as `value`, or a view of bytes."""
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
        index: int = message.frame
        frame = self.frames[index] if index < len(self.frames) else None
        if frame is None:
            raise SerdeError(f"The message uses its frame {index} twice or does not have it.")
        self.frames[index] = None
        self.unused -= 1
        return frame

    def composite(self, message: Message, depth: int) -> Any:
        """Rebuild an object of any registered type."""
        code = message.code
        row = _row(code)
        self._screen(row, message)
        read = self.value if code in WITHOUT_BUFFERS else self.part
        parts = tuple([read(part, depth + 1) for part in message.parts])
        return self._join(PLAIN, row, parts)

    def fill(self, message: Message, kind: MessageKind, depth: int) -> Any:
        """Rebuild an object from its typed message."""
        row = _row(kind.code)
        self._screen(row, message)
        parts = read_fields(kind.fields, self, message, depth + 1)
        if kind.code in WITHOUT_BUFFERS and memoryview in map(type, parts):
            raise SerdeError(f"The message holds a bare buffer inside {row.cls.__name__}.")
        return self._join(kind.layout, row, parts)

    def typed(self, message: Message, depth: int) -> Any:
        """Rebuild an object from a message that is a field of another one."""
        if depth >= MAX_DEPTH:
            raise SerdeError(f"The message is nested deeper than {MAX_DEPTH} levels.")
        return self.fill(message, BY_MESSAGE[message.DESCRIPTOR.name], depth)

    def _screen(self, row: RegisteredType, message: Message) -> None:
        if row.screen is not None:
            self._try(row, row.screen, preview(row.code, message))

    def _join(self, layout: MessageLayout, row: RegisteredType, parts: tuple[Any, ...]) -> Any:
        return self._try(row, layout.join, row, self.worker, parts)

    def _try(self, row: RegisteredType, function: Callable[..., Any], *args: object) -> Any:
        try:
            return function(*args)
        except SyftError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {excerpt(error)}"
            raise SerdeError(f"The message does not describe a valid {row.cls.__name__} ({reason}).") from error

    def finish(self) -> None:
        """Refuse a message with unused frames."""
        if self.unused:
            raise SerdeError(f"The message has {self.unused} unused frames; request it again.")


def _row(code: int) -> RegisteredType:
    row = BY_CODE.get(code)
    if row is None:
        raise SerdeError(
            f"The message holds the type code {code}, which is not registered here; "
            "register its type, or install the same version of this library on both sides."
        )
    return row


def _read_none(message: Message) -> None:
    if message.none:
        raise SerdeError("The message holds a None with a value; its sender is not compatible.")


def _read_big_int(message: Message) -> int:
    number = signed_int(message.big_integer, MAX_INT_BYTES)
    if -(2**63) <= number < 2**63:
        raise SerdeError("The message holds a small int as a large one; its sender is not compatible.")
    return number
