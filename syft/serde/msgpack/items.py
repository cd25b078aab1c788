"""Unpacks the header of a message, counting the values it unfolds into while it does.

Two bytes of msgpack become a list of 150 bytes, and a compressed message of two kilobytes can hold twelve million of
them. So what a header may unfold into is bounded by the size of the message, by the configuration, and by the byte
budget of the request. Headers that are too small to do harm are not counted.
"""

from __future__ import annotations

from typing import Any

import msgpack  # type: ignore[import-untyped,unused-ignore]

from syft import config
from syft.core.byte_budget import ask
from syft.exceptions import SerdeError

# Up to here announced lengths of arrays are harmless; up to here the values are.
_SHORT, _SMALL = 1 << 12, 1 << 16
# What a value takes on its way to the caller, and what a tuple or list takes beyond its values, measured.
ITEM_BYTES, CONTAINER_BYTES = 64, 112
# Every message may unfold into FLOOR bytes, and into TIMES its size on the wire.
FLOOR, TIMES = 256 * 2**20, 64
# Bytes that are asked for at a time.
_STEP = 1 << 22


def unpack(header: memoryview, wire_size: int, ext_hook: object, pairs_hook: object) -> Any:
    """Unpack a header into nested tuples.

    Args:
        header: the msgpack bytes.
        wire_size: the size of the whole message as it was received.
        ext_hook: reads ext types.
        pairs_hook: reads maps.
    """
    if len(header) > _SHORT:
        _check_lengths(header)
    hooks = {"ext_hook": ext_hook, "object_pairs_hook": pairs_hook}
    if len(header) <= _SMALL:
        return msgpack.unpackb(header, use_list=False, **hooks)
    ask(len(header))  # texts and numbers
    limit = min(max(FLOOR, TIMES * wire_size), config.current().max_nested_bytes)
    count = _Counter(limit)
    try:
        return msgpack.unpackb(header, use_list=False, list_hook=count, max_array_len=limit // ITEM_BYTES, **hooks)
    except ValueError as error:
        if "max_array_len" in str(error):
            raise _too_many(limit) from None
        raise


def _check_lengths(header: memoryview) -> None:
    """Walk through a header without building anything: arrays have as many items as they announce."""
    walker = msgpack.Unpacker(None, max_buffer_size=len(header))
    walker.feed(header)
    walker.skip()


class _Counter:
    """Counts the values of each array as it is complete, and refuses to go on when they are too many.

    Args:
        limit: bytes that all values together may take.
    """

    __slots__ = ("granted", "left", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.granted = 0  # bytes that the budget has allowed so far
        self.left = 0  # and how many of them are not used yet

    def __call__(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        self.left -= CONTAINER_BYTES + ITEM_BYTES * len(items)
        if self.left < 0:
            self._grant()
        return items

    def _grant(self) -> None:
        more = max(_STEP, -self.left)
        if self.granted - self.left > self.limit:
            raise _too_many(self.limit)
        ask(more)
        self.granted += more
        self.left += more


def _too_many(limit: int) -> SerdeError:
    return SerdeError(
        f"The message unfolds into more nested values than {limit} bytes hold; send large data as tensors or arrays."
    )
