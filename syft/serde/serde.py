"""Objects to bytes and back, with a replaceable strategy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from syft.core.object import register_serializer
from syft.serde import msgpack

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker


def serialize(
    obj: object,
    worker: BaseWorker | None = None,
    simplified: bool = False,
    force_full_simplification: bool = False,
    strategy: Callable[..., bytes] = msgpack.serialize,
) -> bytes:
    """Write an object as bytes.

    Args:
        obj: what to write; its type, and those of everything in it, must be registered.
        worker: the worker that sends it; its `serializer` and `compression` choose the format.
        simplified: `obj` is already simplified.
        force_full_simplification: send all of an object that otherwise travels as a reference.
        strategy: the function that does it.
    """
    # By name: the documented strategies have it in different places.
    complete = {"force_full_simplification": True} if force_full_simplification else {}
    return strategy(obj, worker, simplified, **complete)


def deserialize(
    binary: bytes | bytearray | memoryview,
    worker: BaseWorker | None = None,
    strategy: Callable[..., Any] = msgpack.deserialize,
    **limits: object,
) -> Any:
    """Read an object from bytes that may come from anyone.

    Args:
        binary: what `serialize` returned.
        worker: the worker that receives it.
        strategy: the function that does it.
        **limits: passed to the strategy, such as `max_message_bytes`.

    Raises:
        SerdeError: the bytes are not a valid message.
    """
    return strategy(binary, worker, **limits)


register_serializer(serialize)
