"""bufferize and unbufferize: objects to their own protobuf messages, without an Envelope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syft.exceptions import SerdeError
from syft.serde.protobuf.engine import Reader, Writer
from syft.serde.protobuf.envelope import checked
from syft.serde.protobuf.schema import syft_pb2
from syft.serde.protobuf.typed_messages import KINDS
from syft.serde.registry import BY_TYPE, row_for

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from syft.workers.base import BaseWorker

_pb: Any = syft_pb2


def bufferize(worker: BaseWorker | None, obj: object) -> Any:
    """Return the typed message of an object, or the Composite of one whose type has none.

    Args:
        worker: the worker that sends it; chooses the format of tensors.
        obj: the object.
    """
    row = BY_TYPE.get(type(obj)) or row_for(type(obj))
    kind = KINDS.get(row.code)
    writer = Writer(worker, None)
    if kind is None:
        composite = _pb.Composite()
        writer.composite(composite, obj, row, 0)
        return composite
    message = kind.message()
    writer.fill(message, obj, kind, row, 0)
    return message


def unbufferize(cls: type, worker: BaseWorker | None, message: Message) -> Any:
    """Rebuild an object of a class from its untrusted message.

    Args:
        cls: the class; several may share one kind of message.
        worker: the worker that receives it.
        message: the message.
    """
    row = BY_TYPE.get(cls) or row_for(cls)
    kind = KINDS.get(row.code)
    reader = Reader(worker, [])
    if isinstance(message, _pb.Composite):
        if message.code != row.code:
            raise SerdeError(f"The message has the type code {message.code}; {cls.__name__} has {row.code}.")
        return reader.composite(checked(message), 0)
    if kind is None or not isinstance(message, kind.message):
        wanted = "Composite" if kind is None else kind.message.DESCRIPTOR.name
        raise SerdeError(f"{cls.__name__} needs a {wanted} message, got {type(message).__name__}.")
    return reader.fill(checked(message), kind, 0)
