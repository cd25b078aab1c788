"""The layout of a message in bytes: an Envelope of the schema, whose frames are not copied by protobuf.

    08 01            version
    12 length ...    the value
    1a length ...    each frame

Any protobuf reader accepts it. Here the outermost level is read by hand: frames are used without a copy, and only the
value is parsed, after a check of its size, because reading it takes up to 45 times the memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syft.core.byte_budget import ask
from syft.exceptions import SerdeError
from syft.serde.buffer import Buffer
from syft.serde.msgpack.frames import MAX_FRAMES
from syft.serde.msgpack.serde import excerpt
from syft.serde.protobuf.schema import syft_pb2

if TYPE_CHECKING:
    from google.protobuf.message import Message

VERSION = 1
MAX_VALUE_BYTES = 32 * 2**20
MAX_MESSAGE_BYTES = 2**31 - 1  # protobuf's own limit
# The maximum memory of a byte, parsed and simplified; values up to the second size are not charged to the budget.
_MAX_EXPANSION, _SMALL = 45, 1 << 16

_pb: Any = syft_pb2
_VERSION, _VALUE, _FRAME = 0x08, 0x12, 0x1A

Parts = list[bytes | memoryview]


def write(value: Message, frames: list[Buffer]) -> Parts:
    """Return the parts of the body of a Value message and frames."""
    data = to_bytes(value)
    if len(frames) > MAX_FRAMES:
        raise SerdeError(f"A message holds at most {MAX_FRAMES} tensors, not {len(frames)}; send fewer.")
    parts: Parts = [bytes((_VERSION, VERSION, _VALUE)), _varint(len(data)), data]
    for frame in frames:
        parts.append(bytes((_FRAME,)) + _varint(len(frame)))
        parts.append(frame.view)
    return parts


def to_bytes(message: Message, limit: int = MAX_VALUE_BYTES) -> bytes:
    """Write one message as bytes."""
    try:
        data: bytes = message.SerializeToString()
    except Exception as error:
        raise SerdeError(f"A protobuf message can't be written ({error}).") from error
    if len(data) > limit:
        raise SerdeError(
            f"The message has {len(data)} bytes of plain values and the limit is {limit}; "
            "send large data as tensors or arrays."
        )
    return data


def read(body: memoryview) -> tuple[memoryview, list[memoryview | None]]:
    """Read and check the outermost level; returns the bytes of the value, and the frames."""
    if not len(body) or body[0] != _VERSION:
        raise SerdeError(
            "The message does not begin with a version, so it is not in the protobuf format. "
            "Read it with the strategy it was written with."
        )
    version, position = _read_varint(body, 1)
    if version != VERSION:
        raise SerdeError(
            f"The message has format version {version} and this library reads only {VERSION}; "
            "install the same version of this library on both sides."
        )
    value: memoryview | None = None
    frames: list[memoryview | None] = []
    while position < len(body):
        tag, position = _read_varint(body, position)
        if tag not in (_VALUE, _FRAME):
            raise SerdeError(_unknown("Envelope"))
        length, position = _read_varint(body, position)
        if length > len(body) - position:
            raise SerdeError("The message is truncated; request it again.")
        content = body[position : position + length]
        position += length
        if tag == _FRAME:
            frames.append(content)
        elif value is None:
            value = content
        else:
            raise SerdeError("The message holds two values; send one message at a time.")
        if len(frames) > MAX_FRAMES:
            raise SerdeError(f"The message has more than {MAX_FRAMES} frames.")
    if value is None:
        raise SerdeError("The message holds no value; its sender is not compatible.")
    return value, frames


def parse(kind: type[Message], data: bytes | memoryview, limit: int = MAX_VALUE_BYTES) -> Any:
    """Parse bytes as one kind of message; refuses fields that the schema does not have, at any depth.

    Protobuf itself keeps unknown fields and uses the last of a repeated singular field. So the parsed message,
    written without unknown fields, must give the same bytes.
    """
    if len(data) > limit:
        raise SerdeError(f"The message has {len(data)} bytes of plain values and the limit is {limit}.")
    if len(data) > _SMALL:
        ask(_MAX_EXPANSION * len(data))
    data = bytes(data)
    message = _parse(kind, data)
    message.DiscardUnknownFields()
    if message.SerializeToString() != data:
        _explain(kind, data, message.ByteSize())
    return message


def _explain(kind: type[Message], data: bytes, known: int) -> None:
    """Refuse more bytes than the known fields have; another order of fields is accepted."""
    if _parse(kind, data).ByteSize() != known:
        raise SerdeError(_unknown(kind.DESCRIPTOR.name))
    if len(data) != known:
        raise SerdeError(
            "The message gives a field twice or a number with more bytes than it needs; its sender is not compatible."
        )


def checked(message: Message) -> Any:
    """Check a message that was parsed elsewhere, as `parse` does."""
    data = to_bytes(message, MAX_MESSAGE_BYTES)
    return parse(type(message), data, MAX_MESSAGE_BYTES)


def _parse(kind: type[Message], data: bytes) -> Any:
    try:
        return kind.FromString(data)
    except Exception as error:  # protobuf's runtimes raise different errors
        raise SerdeError(
            "The message is damaged, or nested deeper than protobuf reads; request it again. "
            f"({type(error).__name__}: {excerpt(error)})"
        ) from error


def _unknown(where: str) -> str:
    return (
        f"The message has unknown fields (in or below {where}); install the same version of this library on both sides."
    )


def envelope(value: Message, frames: list[Buffer]) -> Any:
    """Make the Envelope message of a value."""
    message = _pb.Envelope(version=VERSION, frames=[bytes(frame.view) for frame in frames])
    message.value.CopyFrom(value)
    return message


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(body: memoryview, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if position >= len(body) or shift > 63:
            raise SerdeError("The message is truncated or damaged; request it again.")
        byte = body[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if not byte and shift:
        raise SerdeError("The message has a number with more bytes than it needs; its sender is not compatible.")
    return number, position
