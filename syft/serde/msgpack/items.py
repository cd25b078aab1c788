"""Unpacks the header of a message, and limits the memory of its values.

Two bytes of msgpack become a list of 150 bytes, and a compressed message of two kilobytes can hold twelve million of
them. So the unpacked size is limited by the size of the message, by the configuration, and by the byte budget of the
request. Small headers are not counted.
"""

from __future__ import annotations

from typing import Any

import msgpack  # type: ignore[import-untyped,unused-ignore]

from syft import config
from syft.core.byte_budget import ask
from syft.exceptions import SerdeError

# Headers up to these sizes need no check of declared lengths, and no count of values.
_SHORT, _SMALL = 1 << 12, 1 << 16
# Measured memory of a value, and of a tuple or list in addition to its values.
ITEM_BYTES, CONTAINER_BYTES = 64, 112
# Every message may unpack to MIN_LIMIT bytes, and to MAX_EXPANSION times its size on the wire.
MIN_LIMIT, MAX_EXPANSION = 256 * 2**20, 64
# Bytes charged to the budget at a time.
_STEP = 1 << 22


def unpack(header: memoryview, wire_size: int, ext_hook: object, pairs_hook: object) -> Any:
    """Unpack a header into nested tuples."""
    if len(header) > _SHORT:
        _check_lengths(header)
    hooks = {"ext_hook": ext_hook, "object_pairs_hook": pairs_hook}
    if len(header) <= _SMALL:
        return msgpack.unpackb(header, use_list=False, **hooks)
    ask(len(header))  # texts and numbers
    limit = min(max(MIN_LIMIT, MAX_EXPANSION * wire_size), config.current().max_nested_bytes)
    count = _Counter(limit)
    try:
        return msgpack.unpackb(header, use_list=False, list_hook=count, max_array_len=limit // ITEM_BYTES, **hooks)
    except ValueError as error:
        if "max_array_len" in str(error):
            raise _too_many(limit) from None
        raise


def _check_lengths(header: memoryview) -> None:
    """Check without building values that arrays have as many items as they declare."""
    walker = msgpack.Unpacker(None, max_buffer_size=len(header))
    walker.feed(header)
    walker.skip()


class _Counter:
    """Counts the values of each complete array, and raises if they take more than `limit` bytes together."""

    __slots__ = ("granted", "left", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.granted = 0  # bytes granted by the budget so far
        self.left = 0  # granted bytes that are not used yet

    def __call__(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        self.left -= CONTAINER_BYTES + ITEM_BYTES * len(items)
        if self.left < 0:
            if self.granted - self.left > self.limit:
                raise _too_many(self.limit)
            more = max(_STEP, -self.left)
            ask(more)
            self.granted += more
            self.left += more
        return items


def _too_many(limit: int) -> SerdeError:
    return SerdeError(
        f"The nested values of the message take more than {limit} bytes. Send large data as tensors or arrays."
    )
