"""Ids in protobuf messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syft.core.id_provider import MAX_ID_BITS, MAX_ID_CHARS, ObjectId
from syft.exceptions import SerdeError

if TYPE_CHECKING:
    from google.protobuf.message import Message

_MAX_BYTES = MAX_ID_BITS // 8 + 1


def set_protobuf_id(field: Message, id: ObjectId) -> None:
    """Put an id in an Id message.

    Args:
        field: the message.
        id: a number or a string.
    """
    if type(id) is str:
        field.name = id
    elif type(id) is not int:
        raise SerdeError(f"An id must be a number or a string, got {type(id).__name__}.")
    elif 0 <= id < 2**64:
        field.number = id
    elif 0 <= id < 2**128:
        field.wide = id.to_bytes(16, "big")
    elif id.bit_length() <= MAX_ID_BITS:
        field.other = signed_bytes(id)
    else:
        raise SerdeError(f"An id of {id.bit_length()} bits can't be serialized. The maximum is {MAX_ID_BITS}.")


def get_protobuf_id(field: Message) -> ObjectId:
    """Read the id in an Id message.

    Args:
        field: the message.

    Raises:
        SerdeError: it holds no id, or one in a non-canonical encoding.
    """
    kind = field.WhichOneof("kind")
    if kind == "wide":
        found = int.from_bytes(field.wide, "big")
        if len(field.wide) == 16 and found >= 2**64:
            return found
    elif kind == "number":
        number: int = field.number
        return number
    elif kind == "name":
        name: str = field.name
        if len(name) <= MAX_ID_CHARS:
            return name
    elif kind == "other":
        found = signed_int(field.other, _MAX_BYTES)
        if not 0 <= found < 2**128:
            return found
    else:
        raise SerdeError("The message holds an empty id; write it with set_protobuf_id.")
    raise SerdeError(f"The message holds an id in a non-canonical encoding ({kind}); write it with set_protobuf_id.")


def signed_bytes(number: int) -> bytes:
    """Write an integer of any size: signed, big-endian, as short as possible."""
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


def signed_int(data: bytes, max_bytes: int) -> int:
    """Read the result of `signed_bytes`."""
    if not 0 < len(data) <= max_bytes:
        raise SerdeError(f"The message holds an int of {len(data)} bytes, not 1 to {max_bytes}.")
    number = int.from_bytes(data, "big", signed=True)
    if signed_bytes(number) != data:
        raise SerdeError("The message holds an int with more bytes than it needs; its sender is not compatible.")
    return number
