"""Records: orders to a vault, as plain data that the supervisor can check, store and display.

Reading a record never deserializes a value: tensors, plans and other objects are blobs, opaque bytes behind a header.

    u32     length of the header            big-endian
    ...     the header: one msgpack array, without maps
    ...     the blobs, one after the other; the header states their lengths

In the header, None, bool, int, float and str are written as they are, 16 bytes are a reference to an object by its id,
and every other value is an array that starts with a tag (below).
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeAlias

import msgpack  # type: ignore[import-untyped,unused-ignore]

from syft.core.id_provider import ObjectId
from syft.core.references import Ref
from syft.exceptions import SerdeError

VERSION = 1
MAX_HEADER_BYTES = 2**20
ID_BYTES = 16

CALL, PUT, DELETE, LOAD = 1, 2, 3, 4
# The tags of values in a header.
TUPLE, LIST, DICT, REF, COMPLEX, SLICE, RANGE, ELLIPSIS, NAMED, SIZE, BLOB, INT = range(12)

_LENGTH = struct.Struct(">I")
# The length of each record of a slice that is stored with a request.
SLICE_LENGTH = struct.Struct(">Q")
_ATOMS = frozenset({type(None), bool, int, float, str})
_SEQUENCES = (tuple, list, set, frozenset)
Data: TypeAlias = bytes | memoryview


@dataclasses.dataclass(frozen=True, slots=True)
class Named:
    """A dtype, device, layout or memory format, by its name without `torch.`."""

    kind: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """A `torch.Size`."""

    sizes: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class BlobAt:
    """An argument that is sent as the blob with this index."""

    index: int


@dataclasses.dataclass(frozen=True, slots=True)
class Blob:
    """An object as opaque bytes.

    Attributes:
        kind: the kind of object: `tensor`, `plan`, ...
        spec: a short description, written by the session process, so it may be wrong.
        data: the bytes that `syft.serde.serialize` wrote; empty once they are dropped.
        dropped: the hash of the bytes if they are no longer kept, else "".
    """

    kind: str
    spec: str
    data: Data = dataclasses.field(repr=False)
    dropped: str = ""

    @property
    def hash(self) -> str:
        """The SHA-256 of the bytes, in hexadecimal."""
        return self.dropped or hashlib.sha256(self.data).hexdigest()

    def without_data(self) -> Blob:
        """Return the blob without its bytes."""
        return Blob(self.kind, self.spec, b"", self.hash)


@dataclasses.dataclass(frozen=True, slots=True)
class CallRecord:
    """One call of the table of allowed functions.

    Attributes:
        name: the wire name of the call.
        args: trees of plain values, `Ref`, `Named`, `Size` and `BlobAt`.
        kwargs: the same by name.
        return_ids: ids for the results; further results take the ids that follow the last one.
        grad_enabled: whether autograd records the call.
        blobs: the objects that the record carries, each used once.
    """

    code: ClassVar[int] = CALL
    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    return_ids: tuple[ObjectId, ...] = ()
    grad_enabled: bool = True
    blobs: tuple[Blob, ...] = ()

    def refs(self) -> Iterator[Ref]:
        """Yield every reference among the arguments, left to right."""
        yield from iter_refs(self.args)
        yield from iter_refs(self.kwargs)


@dataclasses.dataclass(frozen=True, slots=True)
class PutRecord:
    """An object moves into the vault, under an id."""

    code: ClassVar[int] = PUT
    obj_id: ObjectId
    blob: Blob

    @property
    def blobs(self) -> tuple[Blob, ...]:
        """The object."""
        return (self.blob,)


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteRecord:
    """Objects are no longer needed."""

    code: ClassVar[int] = DELETE
    blobs: ClassVar[tuple[Blob, ...]] = ()
    ids: tuple[ObjectId, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class LoadRecord:
    """A data set becomes available under its id. Written by the supervisor.

    Attributes:
        obj_id: the id.
        name: the name that the owner gave it.
        spec: dtype and shape, as text.
        rows: the number of rows; None if it has none.
    """

    code: ClassVar[int] = LOAD
    blobs: ClassVar[tuple[Blob, ...]] = ()
    obj_id: ObjectId
    name: str = ""
    spec: str = ""
    rows: int | None = None


Record: TypeAlias = CallRecord | PutRecord | DeleteRecord | LoadRecord


def iter_refs(value: object) -> Iterator[Ref]:
    """Yield every reference in a tree."""
    for leaf in iter_leaves(value):
        if type(leaf) is Ref:
            yield leaf


def iter_leaves(value: object) -> Iterator[Any]:
    """Yield every value in nested containers of any kind that is not a container, left to right."""
    if isinstance(value, _SEQUENCES):
        for item in value:
            yield from iter_leaves(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from iter_leaves(key)
            yield from iter_leaves(item)
    elif type(value) is slice:
        yield from iter_leaves((value.start, value.stop, value.step))
    else:
        yield value


# --- writing ------------------------------------------------------------------------------------------------------


def write_slice(records: Iterable[Record]) -> bytes:
    """Return records as bytes that `read_slice` reads."""
    written = [encode(record) for record in records]
    return b"".join(SLICE_LENGTH.pack(len(one)) + one for one in written)


def encode(record: Record) -> bytes:
    """Return the bytes of a record."""
    try:
        header = msgpack.packb([VERSION, record.code, *_fields(record)], use_bin_type=True)
    except (ValueError, TypeError, OverflowError) as error:
        raise SerdeError(f"A call can't be written as a record: {str(error)[:120]}.") from None
    if len(header) > MAX_HEADER_BYTES:
        raise SerdeError(f"The arguments of a call take {len(header)} bytes and the limit is {MAX_HEADER_BYTES}.")
    return b"".join((_LENGTH.pack(len(header)), header, *(blob.data for blob in record.blobs)))


def _fields(record: Record) -> list[Any]:
    if type(record) is CallRecord:
        kwargs: list[Any] = []
        for key, value in record.kwargs.items():
            kwargs += (key, _packed(value))
        return [
            record.name, record.grad_enabled, [_packed_id(obj_id) for obj_id in record.return_ids],
            [_packed(arg) for arg in record.args], kwargs, [_packed_blob(blob) for blob in record.blobs],
        ]  # fmt: skip
    if type(record) is PutRecord:
        return [_packed_id(record.obj_id), [_packed_blob(record.blob)]]
    if type(record) is DeleteRecord:
        return [[_packed_id(obj_id) for obj_id in record.ids]]
    if type(record) is LoadRecord:
        return [_packed_id(record.obj_id), record.name, record.spec, record.rows]
    raise SerdeError(f"A {type(record).__name__} is not a record.")


def _packed_blob(blob: Blob) -> list[Any]:
    return [blob.kind, blob.spec, len(blob.data)]


def _packed_id(obj_id: ObjectId) -> Any:
    if type(obj_id) is not int:
        return obj_id
    return obj_id.to_bytes(ID_BYTES, "big") if 0 <= obj_id < 2**128 else _packed_int(obj_id)


def _packed_int(number: int) -> Any:
    if -(2**63) <= number < 2**63:
        return number
    return [INT, number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)]


def _packed(value: Any) -> Any:
    kind = type(value)
    if kind is int:
        return _packed_int(value)
    if kind in _ATOMS:
        return value
    if kind is Ref:
        packed = _packed_id(value.id)
        if type(packed) is bytes and value.attribute is None:
            return packed
        return [REF, packed, value.attribute]
    writer = _WRITERS.get(kind)
    if writer is None:
        raise SerdeError(f"A record can't hold a {kind.__name__}.")
    return writer(value)


def _packed_dict(value: dict[Any, Any]) -> list[Any]:
    items: list[Any] = [DICT]
    for key, item in value.items():
        items += (_packed(key), _packed(item))
    return items


_WRITERS: dict[type, Callable[[Any], list[Any]]] = {
    tuple: lambda value: [TUPLE, *map(_packed, value)],
    list: lambda value: [LIST, *map(_packed, value)],
    dict: _packed_dict,
    complex: lambda value: [COMPLEX, value.real, value.imag],
    slice: lambda value: [SLICE, _packed(value.start), _packed(value.stop), _packed(value.step)],
    range: lambda value: [RANGE, value.start, value.stop, value.step],
    type(...): lambda value: [ELLIPSIS],
    Named: lambda value: [NAMED, value.kind, value.name],
    Size: lambda value: [SIZE, *value.sizes],
    BlobAt: lambda value: [BLOB, value.index],
}
