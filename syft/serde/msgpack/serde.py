"""The engine: simplifies objects level by level, and rebuilds them children first.

In a simplified value every tuple is `(code, part, part, ...)`; None, bool, int, float, str and short bytes
stand for themselves; a `Buffer` is read as a memoryview.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from syft.core.labels import id_of
from syft.exceptions import SerdeError, SyftError
from syft.serde import compression
from syft.serde.buffer import Buffer
from syft.serde.msgpack import frames
from syft.serde.msgpack.native_serde import INLINE_BYTES, WITHOUT_BUFFERS
from syft.serde.registry import BY_CODE, BY_TYPE, FORCED, RegisteredType, RegistryView, row_for

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

MAX_DEPTH = 100
ATOMS = frozenset({type(None), bool, int, float, str})
RECEIVED_ATOMS = ATOMS | {bytes}


def serialize(
    obj: object,
    worker: BaseWorker | None = None,
    simplified: bool = False,
    force_full_simplification: bool = False,
) -> bytes:
    """Write an object as bytes.

    Args:
        obj: the object.
        worker: the worker that sends it; chooses the tensor format and the compression.
        simplified: `obj` is already simplified.
        force_full_simplification: write all of an object that is otherwise sent as a reference.
    """
    if not simplified:
        obj = _force_full_simplify(worker, obj) if force_full_simplification else _simplified(worker, obj)
    return compression.join(frames.write(obj), worker)


def deserialize(
    binary: bytes | bytearray | memoryview,
    worker: BaseWorker | None = None,
    *,
    max_message_bytes: int | None = None,
    owns_buffer: bool = False,
) -> Any:
    """Read an object from bytes.

    Args:
        binary: the bytes.
        worker: the worker that receives it.
        max_message_bytes: refuse anything larger, before or after decompression; from `syft.config` if None.
        owns_buffer: whether this writable buffer is used by nothing else, so that tensors may use its memory.
    """
    body = compression.opened(binary, max_message_bytes)
    if not owns_buffer:
        body = body.toreadonly()
    return _detail(worker, frames.read(body, len(binary)))


def read_plain_tuple(binary: bytes | bytearray | memoryview, max_message_bytes: int) -> tuple[Any, ...]:
    """Read one flat tuple of plain values; SerdeError for anything else, and for larger messages."""
    value = frames.read(compression.opened(binary, max_message_bytes).toreadonly(), len(binary))
    if type(value) is not tuple or value[:1] != (BY_TYPE[tuple].code,):
        raise SerdeError("The message is not a tuple.")
    if any(type(part) not in RECEIVED_ATOMS for part in value[1:]):
        raise SerdeError("The message is not a tuple of plain values.")
    return value[1:]


def _simplify(worker: BaseWorker | None, obj: Any) -> Any:
    """Simplify an object; a tensor without an id gets one, so that its copy has the same."""
    return _simplified(worker, identified(obj))


def identified(obj: Any) -> Any:
    """Return an object; a tensor without an id gets one."""
    if isinstance(obj, torch.Tensor):
        id_of(obj)
    return obj


def _simplified(worker: BaseWorker | None, obj: Any) -> Any:
    cls = type(obj)
    if cls in ATOMS or (cls is bytes and len(obj) <= INLINE_BYTES):
        return obj
    return _simplify_level(worker, obj, BY_TYPE.get(cls) or row_for(cls), 0)


def _simplify_level(worker: BaseWorker | None, obj: object, row: RegisteredType, depth: int) -> tuple[Any, ...]:
    if depth >= MAX_DEPTH:
        raise SerdeError(f"An object is nested deeper than {MAX_DEPTH} levels or contains itself.")
    code, cls, simplify = row[:3]
    parts = simplify(worker, obj)
    if type(parts) is not tuple:
        raise SerdeError(f"simplify of {cls.__name__} returned {type(parts).__name__}, not a tuple.")
    out: list[Any] = [code]
    append = out.append
    for part in parts:
        cls = type(part)
        # The tests of _simplify, repeated because a call per part would dominate the cost.
        if cls in ATOMS or cls is Buffer or (cls is bytes and len(part) <= INLINE_BYTES):
            append(part)
        else:
            append(_simplify_level(worker, part, BY_TYPE.get(cls) or row_for(cls), depth + 1))
    return tuple(out)


def _force_full_simplify(worker: BaseWorker | None, obj: object) -> Any:
    """Simplify all of an object, if its type has a full copy."""
    row = next((FORCED[base] for base in type(obj).__mro__ if base in FORCED), None)
    return _simplified(worker, obj) if row is None else _simplify_level(worker, obj, row, 0)


def _detail(worker: BaseWorker | None, value: Any) -> Any:
    """Rebuild an object."""
    cls = type(value)
    if cls is tuple:
        return _rebuild(worker, value, 0)
    if cls in RECEIVED_ATOMS:
        return value
    raise SerdeError(f"A message can't hold a bare {cls.__name__}; its sender is not compatible.")


def _rebuild(worker: BaseWorker | None, value: tuple[Any, ...], depth: int) -> Any:
    if depth >= MAX_DEPTH:
        raise SerdeError(f"The message is nested deeper than {MAX_DEPTH} levels.")
    code = value[0] if value else None
    row = BY_CODE.get(code) if type(code) is int else None
    if row is None:
        raise SerdeError(f"The message holds the type code {excerpt(code)}, which is not registered here.")
    if row.screen is not None:
        try:
            row.screen(value)
        except Exception as error:
            _refuse(row, error)
    parts: list[Any] = []
    append = parts.append
    for part in value[1:]:
        cls = type(part)
        if cls is tuple:
            append(_rebuild(worker, part, depth + 1))
        elif cls in RECEIVED_ATOMS or (cls is memoryview and code not in WITHOUT_BUFFERS):
            append(part)
        elif cls is Buffer and code not in WITHOUT_BUFFERS:  # simplified here, and never received
            append(part.view.toreadonly())
        else:
            raise SerdeError(f"The message holds a bare {cls.__name__} inside {row.cls.__name__}.")
    try:
        return row.detail(worker, tuple(parts))
    except Exception as error:
        _refuse(row, error)


def _simplifier(row: RegisteredType) -> tuple[int, Callable[[Any, Any], tuple[Any, ...]]]:
    return row.code, lambda worker, obj: _simplify_level(worker, identified(obj), row, 0)[1:]


def _detailer(row: RegisteredType) -> Callable[[Any, tuple[Any, ...]], Any]:
    return lambda worker, content: _rebuild(worker, (row.code, *content), 0)


# The documented tables. `simplifiers[cls]` is (code, function), and function(worker, obj) returns the content: with the
# code in front it is what `_simplify` returns. `detailers[code](worker, content)` returns the object.
simplifiers = RegistryView(BY_TYPE, _simplifier)
forced_full_simplifiers = RegistryView(FORCED, _simplifier)
detailers = RegistryView(BY_CODE, _detailer)


def _refuse(row: RegisteredType, error: Exception) -> NoReturn:
    """Raise an error of this library again; any other one says that the message is invalid."""
    if isinstance(error, SyftError):
        raise error
    reason = f"{type(error).__name__}: {excerpt(error)}"
    raise SerdeError(f"The message does not describe a valid {row.cls.__name__} ({reason}).") from error


def excerpt(value: object) -> str:
    """Return the first line of a received value, truncated."""
    text = str(value)[:120] if isinstance(value, int | str | Exception) else type(value).__name__
    return text.partition("\n")[0]
