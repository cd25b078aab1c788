"""Codecs of the fields of typed messages: from a part of a simplified object to a field, and back.

They follow from the schema: the type of a field selects an entry of the tables below; an `optional` field accepts
None. A message that is neither in a table nor a typed kind of Value is a group of fields, whose part is a tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor

from syft.exceptions import SerdeError
from syft.serde.protobuf.proto import get_protobuf_id, set_protobuf_id
from syft.serde.registry import BY_CODE

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

    from syft.serde.protobuf.engine import Reader, Writer

# write(writer, message, part, depth) and read(reader, message, depth) -> part
Write = Callable[[Any, Any, Any, int], None]
Read = Callable[[Any, Any, int], Any]


class Field(NamedTuple):
    """One field: its name, its writer and reader, whether it is optional, and whether it holds all remaining parts."""

    name: str
    write: Write
    read: Read
    optional: bool
    rest: bool


class FieldCodec(NamedTuple):
    """Writer and reader of a message of some type."""

    write: Write
    read: Read


# Wire codes.
TUPLE, SET, FROZENSET = 1, 4, 5
_SCALARS: dict[int, type] = {
    FieldDescriptor.TYPE_STRING: str,
    FieldDescriptor.TYPE_BOOL: bool,
    FieldDescriptor.TYPE_DOUBLE: float,
    FieldDescriptor.TYPE_SINT64: int,
    FieldDescriptor.TYPE_UINT64: int,
}


def _write_tags(writer: Writer, message: Message, part: Any, depth: int) -> None:
    is_set = type(part) is tuple and part[0] in (SET, FROZENSET)
    if not is_set or not all(type(tag) is str for tag in part[1:]):
        raise SerdeError("An object can't be serialized: its tags are not a set of strings.")
    message.words.extend(sorted(part[1:]))


def _read_tags(reader: Reader, message: Message, depth: int) -> tuple[Any, ...]:
    if len(set(message.words)) != len(message.words):
        raise SerdeError("The message holds the same tag twice; its sender is not compatible.")
    return (SET, *message.words)


CODECS: dict[str, FieldCodec] = {
    "Value": FieldCodec(
        lambda writer, message, part, depth: writer.value(message, part, depth),
        lambda reader, message, depth: reader.value(message, depth),
    ),
    "Bytes": FieldCodec(
        lambda writer, message, part, depth: writer.buffer(message, part),
        lambda reader, message, depth: reader.buffer(message),
    ),
    "Id": FieldCodec(
        lambda writer, message, part, depth: set_protobuf_id(message, part),
        lambda reader, message, depth: get_protobuf_id(message),
    ),
    "Tags": FieldCodec(_write_tags, _read_tags),
}


def fields_of(descriptor: Descriptor, typed: frozenset[str]) -> tuple[Field, ...]:
    """Make the fields of a message type; `typed` names the messages that are kinds of Value."""
    fields = []
    for field in sorted(descriptor.fields, key=lambda field: field.number):
        write, read = _repeated(field, typed) if field.is_repeated else _singular(field, typed)
        fields.append(Field(field.name, write, read, _is_optional(field), field.name == "parts"))
    return tuple(fields)


def write_fields(
    fields: tuple[Field, ...], writer: Writer, message: Message, parts: tuple[Any, ...], depth: int
) -> None:
    """Write the parts of one object; optional fields at the end may be missing."""
    message.SetInParent()  # an empty message is not the same as no message
    count = len(parts)
    for index, field in enumerate(fields):
        if field.rest:
            field.write(writer, message, (TUPLE, *parts[index:]), depth)
            return
        if index < count:
            field.write(writer, message, parts[index], depth)
        elif not field.optional:
            raise SerdeError(f"{message.DESCRIPTOR.name} has {len(fields)} fields, but its type has {count} parts.")
    if count > len(fields):
        raise SerdeError(f"{message.DESCRIPTOR.name} has {len(fields)} fields, but its type has {count} parts.")


def read_fields(fields: tuple[Field, ...], reader: Reader, message: Message, depth: int) -> tuple[Any, ...]:
    """Read the parts of one object."""
    parts: list[Any] = []
    for field in fields:
        part = field.read(reader, message, depth)
        if field.rest:
            parts.extend(part[1:])
        else:
            parts.append(part)
    return tuple(parts)


def group(descriptor: Descriptor, typed: frozenset[str]) -> FieldCodec:
    """Make the codec of a message that is a plain group of fields."""
    fields = fields_of(descriptor, typed)

    def write(writer: Writer, message: Message, part: object, depth: int) -> None:
        write_fields(fields, writer, message, _items(part, descriptor.name), depth)

    return FieldCodec(write, lambda reader, message, depth: (TUPLE, *read_fields(fields, reader, message, depth)))


def _is_optional(field: FieldDescriptor) -> bool:
    # protoc puts each field marked `optional` in a oneof of its own, whose name begins with an underscore.
    oneof = field.containing_oneof
    return oneof is not None and bool(oneof.name.startswith("_"))


def _codec(descriptor: Descriptor, typed: frozenset[str]) -> FieldCodec:
    name = descriptor.name
    if name in CODECS:
        return CODECS[name]
    if name in typed:
        return FieldCodec(
            lambda writer, message, part, depth: writer.typed(message, part, depth),
            lambda reader, message, depth: reader.typed(message, depth),
        )
    return group(descriptor, typed)


def _singular(field: FieldDescriptor, typed: frozenset[str]) -> tuple[Write, Read]:
    name, optional, where = field.name, _is_optional(field), f"{field.containing_type.name}.{field.name}"
    if field.message_type is None:
        return _scalar(field, optional, where)
    codec = _codec(field.message_type, typed)

    def write(writer: Writer, message: Message, part: object, depth: int) -> None:
        if part is None and optional:
            return
        inner = getattr(message, name)
        inner.SetInParent()
        codec.write(writer, inner, part, depth)

    def read(reader: Reader, message: Message, depth: int) -> Any:
        if message.HasField(name):
            return codec.read(reader, getattr(message, name), depth)
        if optional:
            return None
        raise SerdeError(f"The message lacks {where}; its sender is not compatible.")

    return write, read


def _scalar(field: FieldDescriptor, optional: bool, where: str) -> tuple[Write, Read]:
    name, kind = field.name, _SCALARS[field.type]

    def write(writer: Writer, message: Message, part: object, depth: int) -> None:
        if part is None and optional:
            return
        if type(part) is not kind:
            raise _type_error(where, part)
        _set(message, name, part, where)

    def read(reader: Reader, message: Message, depth: int) -> Any:
        return getattr(message, name) if not optional or message.HasField(name) else None

    return write, read


def _repeated(field: FieldDescriptor, typed: frozenset[str]) -> tuple[Write, Read]:
    name, where = field.name, f"{field.containing_type.name}.{field.name}"
    if field.message_type is None:
        kind = _SCALARS[field.type]

        def write_scalars(writer: Writer, message: Message, part: object, depth: int) -> None:
            items = _items(part, where)
            if not all(type(item) is kind for item in items):
                raise _type_error(where, part)
            try:
                getattr(message, name).extend(items)
            except (ValueError, UnicodeError) as error:
                raise SerdeError(f"{where} can't hold that value: {str(error)[:80]}.") from error

        return write_scalars, lambda reader, message, depth: (TUPLE, *getattr(message, name))

    codec = _codec(field.message_type, typed)
    # The parts of a tuple or a composite may be buffers; the items of any other field are objects.
    allows_buffers = name == "parts" and field.message_type.name == "Value"

    def write(writer: Writer, message: Message, part: object, depth: int) -> None:
        add = getattr(message, name).add
        for item in _items(part, where):
            if allows_buffers:
                writer.part(add(), item, depth)
            else:
                codec.write(writer, add(), item, depth)

    def read(reader: Reader, message: Message, depth: int) -> tuple[Any, ...]:
        items = getattr(message, name)
        if allows_buffers:
            return (TUPLE, *[reader.part(item, depth) for item in items])
        return (TUPLE, *[codec.read(reader, item, depth) for item in items])

    return write, read


def _set(message: Message, name: str, part: object, where: str) -> None:
    try:
        setattr(message, name, part)
    except (ValueError, UnicodeError) as error:
        raise SerdeError(f"{where} can't hold that value: {str(error)[:80]}.") from error


def _items(part: object, where: str) -> tuple[Any, ...]:
    """Return the items of a simplified tuple."""
    if type(part) is not tuple or part[0] != TUPLE:
        raise _type_error(where, part)
    return part[1:]


def type_name(part: object) -> str:
    """Return the name of the type of a simplified value."""
    return BY_CODE[part[0]].cls.__name__ if type(part) is tuple else type(part).__name__


def _type_error(where: str, part: object) -> SerdeError:
    return SerdeError(f"{where} can't be a {type_name(part)}.")
