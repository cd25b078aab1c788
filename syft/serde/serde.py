"""serialize and deserialize, with a replaceable strategy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from syft.core.providers import providers
from syft.serde import msgpack
from syft.serde.msgpack.serde import identified

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
        obj: the object; its type, and the types of all its parts, must be registered.
        worker: the worker that sends it; its `serializer` and `compression` choose the format.
        simplified: `obj` is already simplified.
        force_full_simplification: write all of an object that is otherwise sent as a reference.
        strategy: the function of the format.
    """
    if not simplified:
        identified(obj)  # a copy has the same id
    # By name: its position differs between the documented strategies.
    complete = {"force_full_simplification": True} if force_full_simplification else {}
    return strategy(obj, worker, simplified, **complete)


def deserialize(
    binary: bytes | bytearray | memoryview,
    worker: BaseWorker | None = None,
    strategy: Callable[..., Any] = msgpack.deserialize,
    **limits: object,
) -> Any:
    """Read an object from untrusted bytes.

    Args:
        binary: the bytes.
        worker: the worker that receives it.
        strategy: the function of the format.
        **limits: passed to the strategy, such as `max_message_bytes`.

    Raises:
        SerdeError: the bytes are not a valid message.
    """
    return strategy(binary, worker, **limits)


providers.serialize = serialize
