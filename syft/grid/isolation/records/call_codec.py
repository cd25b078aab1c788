"""Conversion between calls and records.

session process     record = write_call(operation); send encode(record)
supervisor          record = read_call(frame)           without torch and serde; deserializes nothing
vault               operation = operation_of(record)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from syft.core.id_provider import ObjectId
from syft.core.references import Ref
from syft.exceptions import SerdeError
from syft.grid.isolation.records.record_reader import MAX_DEPTH, MAX_ITEMS, MAX_SPEC, MAX_TEXT
from syft.grid.isolation.records.records import Blob, BlobAt, CallRecord, Named, PutRecord, Size, iter_leaves
from syft.messaging.message import Operation
from syft.messaging.plan.plan import Plan
from syft.serde.msgpack.serde import serialize  # without ids: equal objects give equal bytes
from syft.serde.serde import deserialize

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

# Longer containers of plain values are sent as a blob, so that the header stays short.
MAX_INLINE = 256
_ATOMS = frozenset({type(None), bool, int, float, complex, type(...)})
_INT_BITS = 256


def write_call(operation: Operation, worker: BaseWorker | None = None) -> CallRecord:
    """Return the record of a call.

    Raises:
        SerdeError: an argument can't be serialized.
    """
    writer = _RecordWriter(worker)
    args = tuple([writer.write(arg) for arg in operation.cmd_args])
    kwargs = {key: writer.write(value) for key, value in operation.cmd_kwargs.items()}
    return CallRecord(
        operation.cmd_name, args, kwargs, operation.return_ids, operation.grad_enabled, tuple(writer.blobs)
    )


def operation_of(record: CallRecord, worker: BaseWorker | None = None) -> Operation:
    """Return the call of a record, its blobs deserialized.

    Raises:
        SerdeError: a blob is damaged or holds another kind of object than it states.
    """
    values = [read_blob(blob, worker) for blob in record.blobs]
    args = tuple([_restored(arg, values) for arg in record.args])
    kwargs = {key: _restored(value, values) for key, value in record.kwargs.items()}
    return Operation(record.name, None, args, kwargs, record.return_ids, record.grad_enabled)


def write_put(obj_id: ObjectId, obj: object, worker: BaseWorker | None = None) -> PutRecord:
    """Return the record of an object that moves into the vault under an id."""
    return PutRecord(obj_id, write_blob(obj, worker))


def write_blob(obj: object, worker: BaseWorker | None = None) -> Blob:
    """Return an object as opaque bytes."""
    return Blob(kind_of(obj), _spec_of(obj)[:MAX_SPEC], serialize(obj, worker))


def read_blob(blob: Blob, worker: BaseWorker | None = None) -> Any:
    """Return the object of a blob.

    Raises:
        SerdeError: it is damaged, of another kind, or holds references that the record does not show.
    """
    obj = deserialize(blob.data, worker)
    if kind_of(obj) != blob.kind:
        raise SerdeError(f"A blob of kind {blob.kind!r} holds a {kind_of(obj)!r}.")
    if any(type(leaf) is Ref for leaf in iter_leaves(obj)):
        raise SerdeError("A blob holds a reference to an object; references belong in the record.")
    return obj


def kind_of(obj: object) -> str:
    """Return the kind of an object, as blobs state it."""
    if isinstance(obj, Plan):
        return "plan"
    name = type(obj).__name__.lower()
    return name if name.isascii() and name.isidentifier() and len(name) <= 64 else "object"


def _spec_of(obj: object) -> str:
    if isinstance(obj, torch.Tensor):
        return f"{str(obj.dtype).removeprefix('torch.')} {tuple(obj.shape)}"
    if isinstance(obj, Plan):
        return f"{len(obj.operations)} operations" if obj.is_built else "not built"
    if isinstance(obj, tuple | list | dict | set | frozenset | str | bytes | bytearray):
        return f"{len(obj)} items"
    return ""


class _RecordWriter:
    """Turns arguments into trees, and collects the blobs."""

    def __init__(self, worker: BaseWorker | None) -> None:
        self.worker = worker
        self.blobs: list[Blob] = []

    def write(self, value: Any, depth: int = 0) -> Any:
        """Return the tree of an argument."""
        kind = type(value)
        if kind is int and value.bit_length() > _INT_BITS:
            raise SerdeError(f"An integer of {value.bit_length()} bits is too large for a call.")
        if kind in _ATOMS or kind is Ref:
            return value
        if kind is str:
            return value if len(value) <= MAX_TEXT else self._blob(value)
        if depth >= MAX_DEPTH:
            raise SerdeError(f"The arguments of a call are nested deeper than {MAX_DEPTH} levels.")
        named = _named(value)
        if named is not None:
            return named
        if kind is torch.Size:
            return Size(tuple(value))
        if kind is range:
            return value if _is_short(value) else self._blob(value)
        if kind is slice:
            return slice(*(self.write(part, depth + 1) for part in (value.start, value.stop, value.step)))
        if kind is dict or isinstance(value, tuple) or kind is list:
            return self._container(value, depth)
        return self._blob(value)

    def _container(self, value: dict[Any, Any] | tuple[Any, ...] | list[Any], depth: int) -> Any:
        odd_keys = type(value) is dict and not all(map(_is_key, value))
        if (len(value) > MAX_INLINE or odd_keys) and not any(type(leaf) is Ref for leaf in iter_leaves(value)):
            return self._blob(value)
        if odd_keys:
            raise SerdeError("A dictionary among the arguments of a call needs strings or numbers as keys.")
        if len(value) > MAX_ITEMS:
            raise SerdeError(f"A call takes at most {MAX_ITEMS} objects in one list, got {len(value)}.")
        if type(value) is dict:
            return {key: self.write(item, depth + 1) for key, item in value.items()}
        items = [self.write(item, depth + 1) for item in value]
        return items if type(value) is list else tuple(items)

    def _blob(self, value: object) -> BlobAt:
        self.blobs.append(write_blob(value, self.worker))
        return BlobAt(len(self.blobs) - 1)


def _is_key(value: object) -> bool:
    if type(value) is str:
        return len(value) <= MAX_TEXT
    if type(value) is int:
        return -(2**63) <= value < 2**63
    return type(value) is float or type(value) is bool or value is None


def _is_short(value: range) -> bool:
    return all(-(2**63) <= part < 2**63 for part in (value.start, value.stop, value.step))


# --- named values ----------------------------------------------------------------------------------------------

_BY_NAME: dict[str, dict[str, Any]] = {
    kind: {str(value).removeprefix("torch."): value for value in vars(torch).values() if type(value) is cls}
    for kind, cls in {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}.items()
}
_KINDS = {torch.dtype: "dtype", torch.layout: "layout", torch.memory_format: "memory_format", torch.device: "device"}


def _named(value: object) -> Named | None:
    kind = _KINDS.get(type(value))
    return None if kind is None else Named(kind, str(value).removeprefix("torch."))


def _value_named(named: Named) -> Any:
    if named.kind == "device":
        try:
            return torch.device(named.name)
        except RuntimeError:
            raise SerdeError(f"There is no device {named.name!r}.") from None
    value = _BY_NAME.get(named.kind, {}).get(named.name)
    if value is None:
        raise SerdeError(f"There is no {named.kind} {named.name!r}.")
    return value


def _restored(value: Any, blobs: list[Any]) -> Any:
    """Return a tree with named values and blobs replaced by their objects."""
    kind = type(value)
    if kind is BlobAt:
        return blobs[value.index]
    if kind is Named:
        return _value_named(value)
    if kind is Size:
        return torch.Size(value.sizes)
    if kind is tuple:
        return tuple([_restored(item, blobs) for item in value])
    if kind is list:
        return [_restored(item, blobs) for item in value]
    if kind is dict:
        return {key: _restored(item, blobs) for key, item in value.items()}
    if kind is slice:
        return slice(*(_restored(part, blobs) for part in (value.start, value.stop, value.step)))
    return value
