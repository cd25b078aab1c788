"""Codecs of Python's own types. None, bool, int, float, str and short bytes need none: msgpack writes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
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


def _distinct(keys: Parts) -> Parts:
    """Refuse many keys with one hash, which would make a dict or a set quadratic.

    The hashes are counted as strings, because Python salts the hashes of strings but not those of numbers.
    """
    if len(keys) >= MANY_KEYS:
        worst = max(Counter(str(hash(key)) for key in keys).values())
        if worst > MAX_EQUAL_HASHES:
            raise SerdeError(f"The message holds a dict or a set with {worst} keys of one hash.")
    return keys


def _detail_dict(worker: BaseWorker | None, parts: Parts) -> dict[Any, Any]:
    return dict(zip(_distinct(parts[::2]), parts[1::2], strict=True)) if parts else {}


def _detail_ellipsis(worker: BaseWorker | None, parts: Parts) -> EllipsisType:
    () = parts
    return ...


def _detail_complex(worker: BaseWorker | None, parts: Parts) -> complex:
    real, imag = parts
    if type(real) is not float or type(imag) is not float:
        raise SerdeError("The message holds a complex number whose parts are not floats.")
    return complex(real, imag)


def _detail_text(worker: BaseWorker | None, parts: Parts) -> str:
    (text,) = parts
    if type(text) is not str:
        raise SerdeError(f"The message holds {type(text).__name__} where text is needed.")
    return text


def _collection(build: Callable[[Parts], Any]) -> TypeCodec:
    return TypeCodec(lambda worker, obj: tuple(obj), lambda worker, parts: build(parts))


def _interval(cls: type[range] | type[slice]) -> TypeCodec:
    def detail(worker: BaseWorker | None, parts: Parts) -> Any:
        start, stop, step = parts
        return cls(start, stop, step)

    return TypeCodec(lambda worker, obj: (obj.start, obj.stop, obj.step), detail)


def _binary(cls: type[bytes] | type[bytearray]) -> TypeCodec:
    def detail(worker: BaseWorker | None, parts: Parts) -> Any:
        (view,) = parts
        return cls(as_view(view))

    return TypeCodec(lambda worker, obj: (Buffer(obj),), detail)


CODECS: dict[type, TypeCodec] = {
    tuple: TypeCodec(lambda worker, obj: obj, lambda worker, parts: parts),
    list: _collection(list),
    dict: TypeCodec(lambda worker, obj: tuple(chain.from_iterable(obj.items())), _detail_dict),
    set: _collection(lambda parts: set(_distinct(parts))),
    frozenset: _collection(lambda parts: frozenset(_distinct(parts))),
    range: _interval(range),
    slice: _interval(slice),
    EllipsisType: TypeCodec(lambda worker, obj: (), _detail_ellipsis),
    complex: TypeCodec(lambda worker, obj: (obj.real, obj.imag), _detail_complex),
    bytes: _binary(bytes),
    bytearray: _binary(bytearray),
    str: TypeCodec(lambda worker, obj: (obj,), _detail_text),
}

# Codes of types that never have a buffer among their parts. A tuple may: simplifiers use it to group their parts.
WITHOUT_BUFFERS = frozenset({2, 3, 4, 5, 6, 7, 8, 9, 12})
