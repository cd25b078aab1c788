"""What the `screen` of a row looks at: the received parts, code first, with nothing of them rebuilt.

They have the form they have in the msgpack strategy, nested tuples that begin with a code, two levels down. The
tuples of the second level have their true lengths, and None for each part: to look at more would take as long as
what a screen is there to save.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syft.serde.protobuf.envelope import parse
from syft.serde.protobuf.kinds import BY_MESSAGE, BY_NAME
from syft.serde.protobuf.schema import syft_pb2

if TYPE_CHECKING:
    from google.protobuf.message import Message

_pb: Any = syft_pb2
LEVELS = 2
TUPLE = 1
_ATOMS = frozenset({"boolean", "integer", "real", "text", "data"})


def outline(code: int, message: Message, levels: int = LEVELS) -> tuple[Any, ...]:
    """Return the outline of an object from its Composite or its typed message."""
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
    return outline(TUPLE if kind is None else kind.code, part, levels)


def _value(value: Any, levels: int, unpacked: bool = False) -> Any:
    name = value.WhichOneof("kind")
    if name == "packed" and not unpacked:  # once: packed again inside, it would unfold without end
        return _value(parse(_pb.Value, value.packed), levels, unpacked=True)
    if name in _ATOMS:
        return getattr(value, name)
    if name == "composite":
        return outline(value.composite.code, value.composite, levels)
    return outline(BY_NAME[name].code, getattr(value, name), levels) if name in BY_NAME else None
