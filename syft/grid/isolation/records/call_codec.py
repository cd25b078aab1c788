"""Calls as records: written in a session process, read by the supervisor, turned into calls again in a vault.

session process     record = write_call(operation); send encode_parts(record)
supervisor          record = read_call(frame)           no torch, no serde, nothing deserialized
vault               operation = operation_of(record)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from syft.core.id_provider import ObjectId
from syft.core.references import Ref
from syft.exceptions import SerdeError
from syft.grid.isolation.records.record_reader import MAX_DEPTH, MAX_ITEMS, MAX_SPEC, MAX_TEXT, read_call, read_record
from syft.grid.isolation.records.records import (
    Blob,
    BlobAt,
    CallRecord,
    DeleteRecord,
    LoadRecord,
    Named,
    PutRecord,
    Record,
    Size,
    encode,
    encode_parts,
)
from syft.messaging.message import Operation
from syft.messaging.plan.plan import Plan
from syft.serde.serde import deserialize, serialize

# Longer rows of plain values travel as a blob, so that the header stays short.
MAX_INLINE = 256
_ATOMS = frozenset({type(None), bool, int, float, complex, type(...)})
_INT_BITS = 256


def write_call(operation: Operation, worker: Any = None) -> CallRecord:
    """Return the record of a call.

    Args:
        operation: the call.
        worker: the worker that serializes the objects among its arguments.

    Raises:
        SerdeError: an argument has no wire form.
    """
    writer = _RecordWriter(worker)
    args = tuple([writer.write(arg) for arg in operation.cmd_args])
    kwargs = {key: writer.write(value) for key, value in operation.cmd_kwargs.items()}
    return CallRecord(
        operation.cmd_name, args, kwargs, operation.return_ids, operation.grad_enabled, tuple(writer.blobs)
    )


def operation_of(record: CallRecord, worker: Any = None) -> Operation:
    """Return the call of a record, its blobs deserialized.

    Args:
        record: the record.
        worker: the worker that receives the objects.

    Raises:
        SerdeError: a blob is damaged or not the kind of object that it states.
    """
    values = [read_blob(blob, worker) for blob in record.blobs]
    args = tuple([_restored(arg, values) for arg in record.args])
    kwargs = {key: _restored(value, values) for key, value in record.kwargs.items()}
    return Operation(record.name, None, args, kwargs, record.return_ids, record.grad_enabled)


def write_put(obj_id: ObjectId, obj: Any, worker: Any = None) -> PutRecord:
    """Return the record of an object that moves in under an id."""
    return PutRecord(obj_id, write_blob(obj, worker))


def write_blob(obj: Any, worker: Any = None) -> Blob:
    """Return an object as opaque bytes."""
    return Blob(kind_of(obj), _spec_of(obj)[:MAX_SPEC], serialize(obj, worker))


def read_blob(blob: Blob, worker: Any = None) -> Any:
    """Return the object of a blob.

    Raises:
        SerdeError: it is damaged, of another kind, or holds references that the record does not show.
    """
    obj = deserialize(blob.data, worker)
    if kind_of(obj) != blob.kind:
        raise SerdeError(f"A blob of kind {blob.kind!r} holds a {kind_of(obj)!r}.")
    if any(type(leaf) is Ref for leaf in _leaves(obj)):
        raise SerdeError("A blob holds a reference to an object; references belong in the record.")
    return obj


def kind_of(obj: Any) -> str:
    """Return the kind of an object, as blobs state it."""
    if isinstance(obj, Plan):
        return "plan"
    name = type(obj).__name__.lower()
    return name if name.isascii() and name.isidentifier() and len(name) <= 64 else "object"


def _spec_of(obj: Any) -> str:
    if isinstance(obj, torch.Tensor):
        return f"{str(obj.dtype).removeprefix('torch.')} {tuple(obj.shape)}"
    if isinstance(obj, Plan):
        return f"{len(obj.operations)} operations" if obj.is_built else "not built"
    if isinstance(obj, tuple | list | dict | set | frozenset | str | bytes | bytearray):
        return f"{len(obj)} items"
    return ""


class _RecordWriter:
    """Turn arguments into trees; collects the blobs."""

    def __init__(self, worker: Any) -> None:
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

    def _container(self, value: Any, depth: int) -> Any:
        odd_keys = type(value) is dict and not all(map(_is_key, value))
        if (len(value) > MAX_INLINE or odd_keys) and not any(type(leaf) is Ref for leaf in _leaves(value)):
            return self._blob(value)
        if odd_keys:
            raise SerdeError("A dictionary among the arguments of a call needs texts or numbers as keys.")
        if len(value) > MAX_ITEMS:
            raise SerdeError(f"A call takes at most {MAX_ITEMS} objects in one list, got {len(value)}.")
        if type(value) is dict:
            return {key: self.write(item, depth + 1) for key, item in value.items()}
        items = [self.write(item, depth + 1) for item in value]
        return items if type(value) is list else tuple(items)

    def _blob(self, value: Any) -> BlobAt:
        self.blobs.append(write_blob(value, self.worker))
        return BlobAt(len(self.blobs) - 1)


def _is_key(value: Any) -> bool:
    kind = type(value)
    if kind is str:
        return len(value) <= MAX_TEXT
    return -(2**63) <= value < 2**63 if kind is int else kind is float or kind is bool or value is None


def _is_short(value: range) -> bool:
    return all(-(2**63) <= part < 2**63 for part in (value.start, value.stop, value.step))


def _leaves(value: Any) -> Iterator[Any]:
    """Yield what is in nested containers of any kind."""
    if isinstance(value, tuple | list | set | frozenset):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(key)
            yield from _leaves(item)
    elif type(value) is slice:
        yield from _leaves((value.start, value.stop, value.step))
    else:
        yield value


# --- what has a name ----------------------------------------------------------------------------------------------

_BY_NAME: dict[str, dict[str, Any]] = {
    kind: {str(value).removeprefix("torch."): value for value in vars(torch).values() if type(value) is cls}
    for kind, cls in {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}.items()
}
_KINDS = {torch.dtype: "dtype", torch.layout: "layout", torch.memory_format: "memory_format", torch.device: "device"}


def _named(value: Any) -> Named | None:
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
    """Return a tree with torch's own values and the objects of blobs in their places."""
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


__all__ = [
    "Blob", "BlobAt", "CallRecord", "DeleteRecord", "LoadRecord", "Named", "PutRecord", "Record", "Size", "encode",
    "encode_parts", "kind_of", "operation_of", "read_blob", "read_call", "read_record", "write_blob", "write_call",
    "write_put",
]  # fmt: skip
