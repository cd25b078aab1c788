"""Reader of untrusted records: checks every type, length, depth and id, and deserializes nothing."""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Callable
from typing import Any

import msgpack  # type: ignore[import-untyped,unused-ignore]

from syft.core.id_provider import ObjectId, is_id
from syft.core.references import Ref
from syft.exceptions import SerdeError
from syft.grid.isolation.records import records
from syft.grid.isolation.records.records import (
    ID_BYTES,
    MAX_HEADER_BYTES,
    SLICE_LENGTH,
    VERSION,
    Blob,
    BlobAt,
    CallRecord,
    DeleteRecord,
    LoadRecord,
    Named,
    PutRecord,
    Record,
    Size,
)

MAX_DEPTH = 16
# Maximum number of values in a header. msgpack allocates the declared length of an array at each level, so this also
# bounds the memory that a hostile header takes.
MAX_ITEMS = 8192
MAX_BLOBS = 1024
MAX_TEXT = 1024
MAX_NAME = 200
MAX_SPEC = 200
MAX_DIMENSIONS = 64
MAX_INT_BYTES = 64

_LENGTH = struct.Struct(">I")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*", re.ASCII)
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_ATTRIBUTE = re.compile(r"[A-Za-z]{1,16}(\.[A-Za-z]{1,16}){0,7}", re.ASCII)
_BLOB_KIND = re.compile(r"[a-z_][a-z0-9_]{0,63}", re.ASCII)
# Patterns of the names of named values.
_NAMED: dict[str, re.Pattern[str]] = {
    "dtype": re.compile(r"[a-z][a-z0-9_]{0,31}", re.ASCII),
    "device": re.compile(r"[a-z]{1,16}(:[0-9]{1,3})?", re.ASCII),
    "layout": re.compile(r"[a-z][a-z0-9_]{0,31}", re.ASCII),
    "memory_format": re.compile(r"[a-z][a-z0-9_]{0,31}", re.ASCII),
}
_KEY_TYPES = frozenset({type(None), bool, int, float, str})


def read_record(frame: bytes | bytearray | memoryview) -> Record:
    """Read a record of any kind.

    Args:
        frame: the bytes of one record. The blobs are views of it, so it must not change afterwards.

    Raises:
        SerdeError: the bytes are not a valid record.
    """
    view = memoryview(frame).toreadonly()
    if view.ndim != 1 or view.format != "B":
        raise SerdeError("A record is read from plain bytes.")
    if len(view) < _LENGTH.size:
        raise SerdeError("The record is cut short.")
    end = _LENGTH.size + _LENGTH.unpack_from(view)[0]
    if end > len(view) or end > MAX_HEADER_BYTES:
        raise SerdeError(f"The record states a header that ends at byte {end}, it has {len(view)} bytes.")
    header = _unpack(view[_LENGTH.size : end])
    if type(header) is not tuple or len(header) < 2 or header[0] != VERSION or type(header[1]) is not int:
        raise SerdeError("The record has no known version.")
    reader = _KINDS.get(header[1])
    if reader is None:
        raise SerdeError(f"There is no kind {header[1]} of record.")
    return reader(header[2:], view[end:])


def read_call(frame: bytes | bytearray | memoryview) -> CallRecord:
    """Read the record of a call, as `read_record` does. Raises SerdeError for any other kind."""
    record = read_record(frame)
    if type(record) is not CallRecord:
        raise SerdeError(f"A {type(record).__name__} came where a call was expected.")
    return record


def _unpack(header: memoryview) -> Any:
    try:
        return msgpack.unpackb(
            header, use_list=False, strict_map_key=True, max_array_len=MAX_ITEMS, max_map_len=0, max_ext_len=0,
            max_bin_len=MAX_INT_BYTES, max_str_len=4 * MAX_TEXT,
        )  # fmt: skip
    except Exception as error:  # msgpack has many exception types for malformed bytes
        raise SerdeError(f"The record has a damaged header ({type(error).__name__}).") from None


class _Trees:
    """Reads the trees of one record, and counts their values and the uses of each blob."""

    def __init__(self, blobs: int) -> None:
        self.items = 0
        self.unused = set(range(blobs)) if blobs else set()

    def read(self, value: Any, depth: int = 0) -> Any:
        """Return the tree of a packed value."""
        self.items += 1
        if self.items > MAX_ITEMS:
            raise SerdeError(f"The record holds more than {MAX_ITEMS} values.")
        kind = type(value)
        if kind is bytes:
            return Ref(_id(value))
        if kind is str:
            return _text(value, MAX_TEXT)
        if kind in _KEY_TYPES:
            return value
        if kind is not tuple or not value:
            raise SerdeError(f"The record holds a bare {kind.__name__}.")
        if depth >= MAX_DEPTH:
            raise SerdeError(f"The record is nested deeper than {MAX_DEPTH} levels.")
        reader = _TAGS.get(value[0]) if type(value[0]) is int else None
        if reader is None:
            raise SerdeError("The record holds a value with an unknown tag.")
        return reader(self, value[1:], depth + 1)

    def _all(self, parts: tuple[Any, ...], depth: int) -> list[Any]:
        return [self.read(part, depth) for part in parts]

    def _tuple(self, parts: tuple[Any, ...], depth: int) -> tuple[Any, ...]:
        return tuple(self._all(parts, depth))

    def _dict(self, parts: tuple[Any, ...], depth: int) -> dict[Any, Any]:
        if len(parts) % 2:
            raise SerdeError("The record holds a dictionary with a key and no value.")
        found: dict[Any, Any] = {}
        for key, value in zip(parts[::2], parts[1::2], strict=True):
            if type(key) not in _KEY_TYPES or key in found:
                raise SerdeError("The record holds a dictionary with a bad or repeated key.")
            found[_text(key, MAX_TEXT) if type(key) is str else key] = self.read(value, depth)
        return found

    def _ref(self, parts: tuple[Any, ...], depth: int) -> Ref:
        obj_id, attribute = _exactly(2, parts)
        if attribute is not None and (type(attribute) is not str or not _ATTRIBUTE.fullmatch(attribute)):
            raise SerdeError("The record refers to something that is not an attribute.")
        return Ref(_id(obj_id), attribute)

    def _complex(self, parts: tuple[Any, ...], depth: int) -> complex:
        real, imag = _exactly(2, parts)
        if type(real) is not float or type(imag) is not float:
            raise SerdeError("The record holds a complex number whose parts are not floats.")
        return complex(real, imag)

    def _slice(self, parts: tuple[Any, ...], depth: int) -> slice:
        return slice(*self._all(_exactly(3, parts), depth))

    def _range(self, parts: tuple[Any, ...], depth: int) -> range:
        if not all(type(part) is int for part in _exactly(3, parts)) or not parts[2]:
            raise SerdeError("The record holds a range without whole bounds and a step.")
        return range(*parts)

    def _ellipsis(self, parts: tuple[Any, ...], depth: int) -> Any:
        _exactly(0, parts)
        return ...

    def _named(self, parts: tuple[Any, ...], depth: int) -> Named:
        kind, name = _exactly(2, parts)
        pattern = _NAMED.get(kind) if type(kind) is str else None
        if pattern is None or type(name) is not str or not pattern.fullmatch(name):
            raise SerdeError("The record names something that is not a dtype, device, layout or memory format.")
        return Named(kind, name)

    def _size(self, parts: tuple[Any, ...], depth: int) -> Size:
        if len(parts) > MAX_DIMENSIONS or not all(type(part) is int and 0 <= part < 2**63 for part in parts):
            raise SerdeError("The record holds sizes that no tensor has.")
        return Size(parts)

    def _blob(self, parts: tuple[Any, ...], depth: int) -> BlobAt:
        (index,) = _exactly(1, parts)
        if type(index) is not int or index not in self.unused:
            raise SerdeError("The record uses a blob twice or does not have it.")
        self.unused.remove(index)
        return BlobAt(index)

    def _int(self, parts: tuple[Any, ...], depth: int) -> int:
        return _wide_int(_exactly(1, parts))


# Tag of a value -> how the rest of its array is read.
_TAGS: dict[int, Callable[[_Trees, tuple[Any, ...], int], Any]] = {
    records.TUPLE: _Trees._tuple, records.LIST: _Trees._all, records.DICT: _Trees._dict, records.REF: _Trees._ref,
    records.COMPLEX: _Trees._complex, records.SLICE: _Trees._slice, records.RANGE: _Trees._range,
    records.ELLIPSIS: _Trees._ellipsis, records.NAMED: _Trees._named, records.SIZE: _Trees._size,
    records.BLOB: _Trees._blob, records.INT: _Trees._int,
}  # fmt: skip


def _exactly(count: int, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(parts) != count:
        raise SerdeError(f"The record holds {len(parts)} parts where {count} are expected.")
    return parts


def _wide_int(parts: tuple[Any, ...]) -> int:
    (data,) = parts
    if type(data) is not bytes or not 8 < len(data) <= MAX_INT_BYTES:
        raise SerdeError("The record holds an integer of a wrong length.")
    return int.from_bytes(data, "big", signed=True)


def _text(value: object, limit: int) -> str:
    if type(value) is not str or len(value) > limit:
        raise SerdeError(
            f"The record holds a {type(value).__name__} instead of a string of at most {limit} characters."
        )
    return value


def _id(value: object) -> ObjectId:
    if type(value) is bytes:
        if len(value) != ID_BYTES:
            raise SerdeError(f"The record holds an id of {len(value)} bytes.")
        return int.from_bytes(value, "big")
    if type(value) is tuple and len(value) == 2 and value[0] == records.INT and type(value[0]) is int:
        value = _wide_int(value[1:])
    if not (type(value) is int or type(value) is str) or not is_id(value):
        raise SerdeError(f"The record holds a {type(value).__name__} instead of an id.")
    return value


def _array(value: object, limit: int = MAX_ITEMS) -> tuple[Any, ...]:
    if type(value) is not tuple or len(value) > limit:
        raise SerdeError(f"The record holds a {type(value).__name__} instead of an array of at most {limit} values.")
    return value


def _blobs(rows: object, body: memoryview) -> tuple[Blob, ...]:
    """Split the bytes after the header into blobs, without a rest."""
    found, position = [], 0
    for row in _array(rows, MAX_BLOBS):
        kind, spec, length = _exactly(3, _array(row))
        if type(kind) is not str or not _BLOB_KIND.fullmatch(kind):
            raise SerdeError("The record holds a blob without a kind.")
        if type(length) is not int or not 0 <= length <= len(body) - position:
            raise SerdeError("The record states a blob that is longer than its bytes.")
        found.append(Blob(kind, _text(spec, MAX_SPEC), body[position : position + length]))
        position += length
    if position != len(body):
        raise SerdeError(f"The record has {len(body) - position} bytes that belong to no blob.")
    return tuple(found)


@functools.lru_cache(4096)
def _is_well_formed(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def _is_name(name: object) -> bool:
    return type(name) is str and len(name) <= MAX_NAME and _is_well_formed(name)


def _keywords(trees: _Trees, parts: tuple[Any, ...]) -> dict[str, Any]:
    keys, values = parts[::2], parts[1::2]
    if len(keys) != len(values) or not all(type(key) is str and _KEY.fullmatch(key) for key in keys):
        raise SerdeError("The record holds keyword arguments without a proper name or without a value.")
    if len(set(keys)) != len(keys):
        raise SerdeError("The record holds a keyword argument twice.")
    return {key: trees.read(value) for key, value in zip(keys, values, strict=True)}


def _call(fields: tuple[Any, ...], body: memoryview) -> CallRecord:
    name, grad_enabled, return_ids, args, kwargs, rows = _exactly(6, fields)
    if not _is_name(name):
        raise SerdeError("The record holds a call without a proper name.")
    if type(grad_enabled) is not bool:
        raise SerdeError("The record does not say whether autograd records the call.")
    blobs = _blobs(rows, body) if rows != () or len(body) else ()
    trees = _Trees(len(blobs))
    read_args = tuple([trees.read(arg) for arg in _array(args)])
    read_kwargs = _keywords(trees, _array(kwargs)) if kwargs != () else {}
    if trees.unused:
        raise SerdeError("The record holds blobs that its arguments do not use.")
    ids = tuple([_id(obj_id) for obj_id in _array(return_ids)])
    return CallRecord(name, read_args, read_kwargs, ids, grad_enabled, blobs)


def _put(fields: tuple[Any, ...], body: memoryview) -> PutRecord:
    obj_id, rows = _exactly(2, fields)
    (blob,) = _exactly(1, _blobs(rows, body))
    return PutRecord(_id(obj_id), blob)


def _delete(fields: tuple[Any, ...], body: memoryview) -> DeleteRecord:
    (ids,) = _exactly(1, fields)
    _blobs((), body)
    return DeleteRecord(tuple([_id(obj_id) for obj_id in _array(ids)]))


def _load(fields: tuple[Any, ...], body: memoryview) -> LoadRecord:
    obj_id, name, spec, rows = _exactly(4, fields)
    _blobs((), body)
    if rows is not None and (type(rows) is not int or not 0 <= rows < 2**63):
        raise SerdeError("The record states a number of rows that no data set has.")
    return LoadRecord(_id(obj_id), _text(name, MAX_TEXT), _text(spec, MAX_SPEC), rows)


# The closed table of kinds.
_KINDS: dict[int, Callable[[tuple[Any, ...], memoryview], Record]] = {
    records.CALL: _call, records.PUT: _put, records.DELETE: _delete, records.LOAD: _load,
}  # fmt: skip


def read_slice(data: bytes | bytearray | memoryview) -> list[Record]:
    """Return the records of bytes that `write_slice` wrote."""
    found, view = [], memoryview(data)
    while view:
        (length,) = SLICE_LENGTH.unpack(view[: SLICE_LENGTH.size])
        found.append(read_record(view[SLICE_LENGTH.size : SLICE_LENGTH.size + length]))
        view = view[SLICE_LENGTH.size + length :]
    return found
