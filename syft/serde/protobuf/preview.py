"""Previews of received objects for the `screen` of an entry: their parts, code first, without rebuilding them.

A preview has the structure of the msgpack format: nested tuples that begin with a code, two levels deep. The tuples of
the second level have their true lengths, with None for each part: reading more would cost as much as rebuilding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syft.serde.protobuf.envelope import parse
from syft.serde.protobuf.schema import syft_pb2
from syft.serde.protobuf.typed_messages import BY_MESSAGE, BY_NAME

if TYPE_CHECKING:
    from google.protobuf.message import Message

_pb: Any = syft_pb2
LEVELS = 2
TUPLE = 1
# Kinds of Value whose field is the object itself.
PLAIN_KINDS = frozenset({"boolean", "integer", "real", "text", "data"})


def preview(code: int, message: Message, levels: int = LEVELS) -> tuple[Any, ...]:
    """Return the preview of an object from its Composite or its typed message."""
    if isinstance(message, _pb.Composite):
        return (code, *_items(message.parts, levels))
    parts: list[Any] = [code]
    for field in sorted(message.DESCRIPTOR.fields, key=lambda field: field.number):
        if field.is_repeated:
            items = getattr(message, field.name)
            parts += _items(items, levels) if field.name == "parts" else [(TUPLE, *_items(items, levels - 1))]
        elif field.has_presence and not message.HasField(field.name):
            parts.append(None)
        else:
            parts.append(_part(getattr(message, field.name), levels - 1))
    return tuple(parts)


def _items(items: Any, levels: int) -> list[Any]:
    return [_part(item, levels - 1) for item in items] if levels > 0 else [None] * len(items)


def _part(part: object, levels: int) -> Any:
    if isinstance(part, _pb.Value):
        return _value(part, levels)
    if not hasattr(part, "DESCRIPTOR"):
        return part
    kind = BY_MESSAGE.get(part.DESCRIPTOR.name)
    return preview(TUPLE if kind is None else kind.code, part, levels)


def _value(value: Any, levels: int, unpacked: bool = False) -> Any:
    name = value.WhichOneof("kind")
    if name == "packed" and not unpacked:  # once: nested packing could expand without end
        return _value(parse(_pb.Value, value.packed), levels, unpacked=True)
    if name in PLAIN_KINDS:
        return getattr(value, name)
    if name == "composite":
        return preview(value.composite.code, value.composite, levels)
    return preview(BY_NAME[name].code, getattr(value, name), levels) if name in BY_NAME else None
