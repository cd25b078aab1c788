"""Slices as bytes: the records that lead to an object, kept with a request so that they can be replayed."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from syft.grid.isolation.records.record_reader import read_record
from syft.grid.isolation.records.records import Record, encode

_LENGTH = struct.Struct(">Q")


def write_slice(records: Iterable[Record]) -> bytes:
    """Return records as bytes that `read_slice` reads."""
    written = [encode(record) for record in records]
    return b"".join(_LENGTH.pack(len(one)) + one for one in written)


def read_slice(data: bytes | bytearray | memoryview) -> list[Record]:
    """Return the records of bytes that `write_slice` wrote."""
    records, view = [], memoryview(data)
    while view:
        (length,) = _LENGTH.unpack(view[: _LENGTH.size])
        records.append(read_record(view[_LENGTH.size : _LENGTH.size + length]))
        view = view[_LENGTH.size + length :]
    return records
