"""Codecs of numpy arrays and scalars: dtype, shape and raw little-endian bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syft.exceptions import SerdeError
from syft.serde.buffer import Buffer, as_view, element_count, refuse_bad_bools
from syft.serde.registry import TypeCodec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syft.workers.base import BaseWorker

Parts = tuple[Any, ...]

MAX_DIMENSIONS = 64

SCALARS: tuple[type[np.generic], ...] = tuple(
    dict.fromkeys(kind for kind in np.sctypeDict.values() if np.dtype(kind).kind in "biufc")
)
DTYPES: dict[str, np.dtype[Any]] = {
    dtype.str: dtype for kind in SCALARS for dtype in [np.dtype(np.dtype(kind).newbyteorder("<").str)]
}
# The 80-bit floats of x86 have padding bytes, whose contents must not be sent.
_IS_80_BIT = np.finfo(np.longdouble).nmant == 63
_PADDED = frozenset({np.dtype(np.longdouble), np.dtype(np.clongdouble)} if _IS_80_BIT else ())


def flat_bytes(array: np.ndarray[Any, Any]) -> memoryview:
    """Return the values of an array as little-endian bytes; a copy only when needed."""
    dtype = array.dtype
    flat = np.ascontiguousarray(array, dtype=dtype.newbyteorder("<")).reshape(-1)
    if dtype.newbyteorder("=") in _PADDED:
        rows = flat.view(np.uint8).reshape(-1, np.dtype(np.longdouble).itemsize).copy()
        rows[:, 10:] = 0
        flat = rows.reshape(-1)
    return flat.view(np.uint8).data


def dtype_of(name: object) -> np.dtype[Any]:
    """Return a dtype by its name."""
    dtype = DTYPES.get(name) if type(name) is str else None
    if dtype is None:
        raise SerdeError(f"The message holds a numpy dtype that is not a number: {str(name)[:40]!r}.")
    return dtype


def array_from(view: memoryview, dtype: np.dtype[Any], shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """Build an array, and check that its size fits its shape; read-only views are copied."""
    expected = element_count(shape, MAX_DIMENSIONS) * dtype.itemsize
    if expected != len(view):
        raise SerdeError(f"The message holds an array of {expected} bytes with {len(view)} bytes of data.")
    if dtype.kind == "b":
        refuse_bad_bools(view)
    flat = np.frombuffer(bytearray(view) if view.readonly else view, dtype=dtype)
    return flat.reshape(shape)


def _refuse_other_kinds(dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "biufc":
        raise SerdeError(f"numpy data of dtype {dtype} can't be serialized; convert it to numbers first.")


def _simplify_array(worker: BaseWorker | None, obj: np.ndarray[Any, Any]) -> Parts:
    _refuse_other_kinds(obj.dtype)
    return obj.dtype.newbyteorder("<").str, obj.shape, Buffer(flat_bytes(obj))


def _detail_array(worker: BaseWorker | None, parts: Parts) -> np.ndarray[Any, Any]:
    name, shape, data = parts
    return array_from(as_view(data), dtype_of(name), shape)


def _simplify_scalar(worker: BaseWorker | None, obj: np.generic) -> Parts:
    _refuse_other_kinds(obj.dtype)
    return obj.dtype.newbyteorder("<").str, bytes(flat_bytes(np.asarray(obj)))


def _detail_scalar(worker: BaseWorker | None, parts: Parts) -> Any:
    name, data = parts
    return array_from(as_view(data), dtype_of(name), ())[()]


CODECS: dict[type, TypeCodec] = {
    np.ndarray: TypeCodec(_simplify_array, _detail_array),
    np.generic: TypeCodec(_simplify_scalar, _detail_scalar, exact=False, aliases=SCALARS),
}
