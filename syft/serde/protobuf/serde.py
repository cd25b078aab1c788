"""serialize and deserialize of the protobuf format, and bufferize and unbufferize, which make single messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from google.protobuf.message import Message as ProtobufMessage

from syft.exceptions import SerdeError
from syft.serde import compression
from syft.serde.buffer import Buffer
from syft.serde.msgpack.serde import (
    RECEIVED_ATOMS,
    _detail,
    _force_full_simplify,
    _simplified,
    _simplify,
    _simplify_level,
    identified,
)
from syft.serde.protobuf import envelope
from syft.serde.protobuf.engine import Reader, Writer
from syft.serde.protobuf.schema import syft_pb2
from syft.serde.protobuf.typed_messages import BY_MESSAGE, KINDS, SHARED
from syft.serde.registry import BY_TYPE, RegistryView, row_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message

    from syft.workers.base import BaseWorker

_pb: Any = syft_pb2


def serialize(
    obj: object,
    worker: BaseWorker | None = None,
    simplified: bool = False,
    force_no_compression: bool = False,
    force_no_serialization: bool = False,
    force_full_simplification: bool = False,
) -> Any:
    """Write an object as bytes.

    Args:
        obj: the object; its type, and the types of all its parts, must be registered.
        worker: the worker that sends it; chooses the tensor format and the compression.
        simplified: `obj` is already an Envelope or a Value message.
        force_no_compression: do not compress, whatever the worker's setting.
        force_no_serialization: return the Envelope message instead of its bytes.
        force_full_simplification: write all of an object that is otherwise sent as a reference.
    """
    frames: list[Buffer] = []
    if simplified:
        value = _simplified_value(obj, frames)
    else:
        value = _pb.Value()
        simplify = _force_full_simplify if force_full_simplification else _simplified
        Writer(frames).value(value, simplify(worker, obj))
    if force_no_serialization:
        return envelope.envelope(value, frames)
    return compression.join(envelope.write(value, frames), compression.UNCOMPRESSED if force_no_compression else worker)


def deserialize(
    binary: bytes | bytearray | memoryview,
    worker: BaseWorker | None = None,
    unbufferizes: bool = True,
    *,
    max_message_bytes: int | None = None,
    owns_buffer: bool = False,
) -> Any:
    """Read an object from untrusted bytes.

    Args:
        binary: the bytes.
        worker: the worker that receives it.
        unbufferizes: rebuild the object; if False, return the Envelope message.
        max_message_bytes: refuse anything larger, before or after decompression; from `syft.config` if None.
        owns_buffer: for transports, as in the msgpack strategy; here tensors are always copied, because
            the contents of protobuf messages are not aligned.

    Raises:
        SerdeError: the bytes are not a valid message.
    """
    data, frames = envelope.read(compression.opened(binary, max_message_bytes).toreadonly())
    value = envelope.parse(_pb.Value, data)
    if not unbufferizes:
        return envelope.envelope(value, [Buffer(frame) for frame in frames if frame is not None])
    reader = Reader(frames)
    simplified = reader.value(value)
    reader.frames.finish()
    return _detail(worker, simplified)


def bufferize(worker: BaseWorker | None, obj: object) -> Any:
    """Return the typed message of an object, or the Composite of one whose type has none; without an Envelope."""
    row = BY_TYPE.get(type(obj)) or row_for(type(obj))
    value = _simplify_level(worker, identified(obj), row, 0)
    kind = KINDS.get(row.code)
    message = _pb.Composite() if kind is None else kind.message()
    writer = Writer(None)
    if kind is None:
        writer.composite(message, value, 0)
    else:
        writer.fill(message, value, kind, 0)
    return message


def unbufferize(cls: type, worker: BaseWorker | None, message: Message) -> Any:
    """Rebuild an object of a class from its untrusted message; several classes may share one kind of message."""
    row = BY_TYPE.get(cls) or row_for(cls)
    kind = KINDS.get(row.code)
    reader = Reader([])
    if isinstance(message, _pb.Composite):
        if message.code != row.code:
            raise SerdeError(f"The message has the type code {message.code}; {cls.__name__} has {row.code}.")
        return _detail(worker, reader.composite(envelope.checked(message), 0))
    if kind is None or not isinstance(message, kind.message):
        wanted = "Composite" if kind is None else kind.message.DESCRIPTOR.name
        raise SerdeError(f"{cls.__name__} needs a {wanted} message, got {type(message).__name__}.")
    return _detail(worker, reader.fill(envelope.checked(message), kind, 0))


def _bufferize(worker: BaseWorker | None, obj: object) -> Any:
    """Return the message of an object: its own kind if no other type has it, a Composite, or a Value for the rest."""
    kind = None if type(obj) in RECEIVED_ATOMS else KINDS.get(row_for(type(obj)).code)
    if type(obj) not in RECEIVED_ATOMS and (kind is None or kind.message.DESCRIPTOR.name not in SHARED):
        return bufferize(worker, obj)
    message = _pb.Value()
    Writer(None).value(message, _simplify(worker, obj))
    return message


def _unbufferize(worker: BaseWorker | None, message: Message) -> Any:
    """Rebuild the object of an untrusted message that `_bufferize` made; the kind of message selects its class."""
    name = message.DESCRIPTOR.name if isinstance(message, ProtobufMessage) else type(message).__name__
    reader = Reader([])
    if isinstance(message, _pb.Value):
        return _detail(worker, reader.value(envelope.checked(message)))
    if isinstance(message, _pb.Composite):
        return _detail(worker, reader.composite(envelope.checked(message), 0))
    kind = None if name in SHARED else BY_MESSAGE.get(name)
    if kind is None or not isinstance(message, kind.message):
        raise SerdeError(
            f"A {name} does not tell the class of its object. Pass the message that _bufferize returned, or call "
            "unbufferize of the class."
        )
    return _detail(worker, reader.fill(envelope.checked(message), kind, 0))


# The documented table: `bufferizers[cls](worker, obj)` returns the message of an object.
_Bufferizer: TypeAlias = "Callable[[BaseWorker | None, object], Any]"
_OF_PLAIN_VALUES: dict[type, _Bufferizer] = dict.fromkeys((type(None), bool, int, float), _bufferize)
bufferizers: RegistryView[type, _Bufferizer] = RegistryView(BY_TYPE, lambda row: bufferize, _OF_PLAIN_VALUES)


def _simplified_value(obj: object, frames: list[Buffer]) -> Any:
    if isinstance(obj, _pb.Value):
        return obj
    if not isinstance(obj, _pb.Envelope):
        raise SerdeError(
            f"A simplified object must be an Envelope or a Value message, got {type(obj).__name__}. "
            "Pass simplified=False for anything else."
        )
    if obj.version != envelope.VERSION:
        raise SerdeError(f"The Envelope has version {obj.version} and this library reads only {envelope.VERSION}.")
    frames.extend(map(Buffer, obj.frames))
    return obj.value
