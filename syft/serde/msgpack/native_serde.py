"""Codecs of Python's own types. None, bool, int, float, str and short bytes need none: msgpack writes them."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from types import EllipsisType
from typing import TYPE_CHECKING, Any

from syft.exceptions import SerdeError
from syft.serde.buffer import Buffer, as_view
from syft.serde.registry import TypeCodec

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

Parts = tuple[Any, ...]

INLINE_BYTES = 4096  # longer bytes become a frame
MANY_KEYS = 1000
MAX_EQUAL_HASHES = 100


def _simplify_tuple(worker: BaseWorker | None, obj: Parts) -> Parts:
    return obj


def _detail_tuple(worker: BaseWorker | None, parts: Parts) -> Parts:
    return parts


def _simplify_collection(worker: BaseWorker | None, obj: Any) -> Parts:
    return tuple(obj)


def _detail_list(worker: BaseWorker | None, parts: Parts) -> list[Any]:
    return list(parts)


def _detail_set(worker: BaseWorker | None, parts: Parts) -> set[Any]:
    _refuse_collisions(parts)
    return set(parts)


def _detail_frozenset(worker: BaseWorker | None, parts: Parts) -> frozenset[Any]:
    _refuse_collisions(parts)
    return frozenset(parts)


def _simplify_dict(worker: BaseWorker | None, obj: dict[Any, Any]) -> Parts:
    return tuple(chain.from_iterable(obj.items()))


def _detail_dict(worker: BaseWorker | None, parts: Parts) -> dict[Any, Any]:
    if not parts:
        return {}
    keys = parts[::2]
    _refuse_collisions(keys)
    return dict(zip(keys, parts[1::2], strict=True))


def _refuse_collisions(keys: Parts) -> None:
    """Refuse many keys with one hash, which would make a dict or a set quadratic.

    The hashes are counted as strings, because Python salts the hashes of strings but not those of numbers.
    """
    if len(keys) < MANY_KEYS:
        return
    worst = max(Counter(str(hash(key)) for key in keys).values())
    if worst > MAX_EQUAL_HASHES:
        raise SerdeError(f"The message holds a dict or a set with {worst} keys of one hash.")


def _simplify_range(worker: BaseWorker | None, obj: range) -> Parts:
    return obj.start, obj.stop, obj.step


def _detail_range(worker: BaseWorker | None, parts: Parts) -> range:
    start, stop, step = parts
    return range(start, stop, step)


def _simplify_slice(worker: BaseWorker | None, obj: slice) -> Parts:
    return obj.start, obj.stop, obj.step


def _detail_slice(worker: BaseWorker | None, parts: Parts) -> slice:
    start, stop, step = parts
    return slice(start, stop, step)


def _simplify_ellipsis(worker: BaseWorker | None, obj: EllipsisType) -> Parts:
    return ()


def _detail_ellipsis(worker: BaseWorker | None, parts: Parts) -> EllipsisType:
    () = parts
    return ...


def _simplify_complex(worker: BaseWorker | None, obj: complex) -> Parts:
    return obj.real, obj.imag


def _detail_complex(worker: BaseWorker | None, parts: Parts) -> complex:
    real, imag = parts
    if type(real) is not float or type(imag) is not float:
        raise SerdeError("The message holds a complex number whose parts are not floats.")
    return complex(real, imag)


def _simplify_bytes(worker: BaseWorker | None, obj: bytes | bytearray) -> Parts:
    return (Buffer(obj),)


def _detail_bytes(worker: BaseWorker | None, parts: Parts) -> bytes:
    (view,) = parts
    return bytes(as_view(view))


def _detail_bytearray(worker: BaseWorker | None, parts: Parts) -> bytearray:
    (view,) = parts
    return bytearray(as_view(view))


CODECS: dict[type, TypeCodec] = {
    tuple: TypeCodec(_simplify_tuple, _detail_tuple),
    list: TypeCodec(_simplify_collection, _detail_list),
    dict: TypeCodec(_simplify_dict, _detail_dict),
    set: TypeCodec(_simplify_collection, _detail_set),
    frozenset: TypeCodec(_simplify_collection, _detail_frozenset),
    range: TypeCodec(_simplify_range, _detail_range),
    slice: TypeCodec(_simplify_slice, _detail_slice),
    EllipsisType: TypeCodec(_simplify_ellipsis, _detail_ellipsis),
    complex: TypeCodec(_simplify_complex, _detail_complex),
    bytes: TypeCodec(_simplify_bytes, _detail_bytes),
    bytearray: TypeCodec(_simplify_bytes, _detail_bytearray),
}

# Codes of types that never have a buffer among their parts. A tuple may: simplifiers use it to group their parts.
WITHOUT_BUFFERS = frozenset({2, 3, 4, 5, 6, 7, 8, 9})
