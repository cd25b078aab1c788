"""The typed messages of the schema, by wire code, derived from the fields of Value.kind.

An entry of LAYOUTS is needed only if the fields of a message are not the parts of a simplified object in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

from syft.codes import TENSOR_SERIALIZATION
from syft.exceptions import SerdeError
from syft.serde.protobuf.fields import TUPLE, Field, fields_of
from syft.serde.protobuf.schema import syft_pb2

_pb: Any = syft_pb2
OFFSET = 20  # the number of a typed kind is its wire code plus this
RAW = TENSOR_SERIALIZATION.RAW
DICT, REF = 3, 86  # wire codes

Parts = tuple[Any, ...]


class MessageLayout(NamedTuple):
    """Turns the parts of a simplified object into the fields of its message, and the inverse."""

    split: Callable[[Parts], Parts]
    join: Callable[[Parts], Parts]


class MessageKind(NamedTuple):
    """One typed message: its wire code, its name in Value.kind, its class, its fields and its layout."""

    code: int
    name: str
    message: Any
    fields: tuple[Field, ...]
    layout: MessageLayout


def _same(parts: Parts) -> Parts:
    return parts


def _join_dict(parts: Parts) -> Parts:
    (_, *keys), (_, *values) = parts
    if len(keys) != len(values):
        raise SerdeError("The message holds a dict with another number of keys than values.")
    return tuple(chain.from_iterable(zip(keys, values, strict=True)))


def _split_tensor(parts: Parts) -> Parts:
    obj_id, values, _, grad, tags, description, name, *more = parts
    contents = (values, None) if name == RAW else (None, values)
    return (obj_id, *contents, grad, tags, description, name, bool(more))


def _join_tensor(parts: Parts) -> Parts:
    obj_id, data, other, grad, tags, description, name, requires_grad = parts
    if (data is None) is (name == RAW) or (other is not None and name == RAW):
        raise SerdeError("The message holds a tensor whose values are not in the format it names.")
    more = (True,) if requires_grad else ()
    return (obj_id, data if name == RAW else other, None, grad, tags, description, name, *more)


def _split_operation(parts: Parts) -> Parts:
    """Return the fields of an operation one by one, also of the flat form, in which ids are bytes."""
    if type(parts[0]) is not bool:
        return parts
    grad_enabled, name, result, *args = parts
    refs = [(REF, int.from_bytes(arg, "big"), None) if type(arg) is bytes else arg for arg in args]
    return name, (TUPLE, *refs), (DICT,), (TUPLE, int.from_bytes(result, "big")), grad_enabled


PLAIN = MessageLayout(_same, _same)
LAYOUTS: dict[str, MessageLayout] = {
    "dict": MessageLayout(lambda parts: ((TUPLE, *parts[::2]), (TUPLE, *parts[1::2])), _join_dict),
    "tensor": MessageLayout(_split_tensor, _join_tensor),
    "operation": MessageLayout(_split_operation, _same),
}


def _kinds() -> dict[str, MessageKind]:
    found = [field for field in _pb.Value.DESCRIPTOR.fields if field.number > OFFSET]
    typed = frozenset(field.message_type.name for field in found)
    fields = {field.message_type.name: fields_of(field.message_type, typed) for field in found}
    return {
        field.name: MessageKind(
            field.number - OFFSET,
            field.name,
            getattr(_pb, field.message_type.name),
            fields[field.message_type.name],
            LAYOUTS.get(field.name, PLAIN),
        )
        for field in found
    }


BY_NAME: dict[str, MessageKind] = _kinds()
KINDS: dict[int, MessageKind] = {kind.code: kind for kind in BY_NAME.values()}
# For fields of other messages, which have no code: only messages of a single type occur there.
BY_MESSAGE: dict[str, MessageKind] = {kind.message.DESCRIPTOR.name: kind for kind in reversed(BY_NAME.values())}
# Messages of several types, which do not tell which of them an object has.
_counts = Counter(kind.message.DESCRIPTOR.name for kind in BY_NAME.values())
SHARED = frozenset(name for name, count in _counts.items() if count > 1)
