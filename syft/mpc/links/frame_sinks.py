"""Sinks: where the frame goes that is just arriving from another party."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syft.mpc.links.party_link import FrameTag

# Bytes that are dropped at once.
PIECE = 1 << 16


class Sink:
    """What the frame that is just arriving goes to.

    Args:
        stamp: where it belongs; None if nobody wants it.
        groups: its tensors.
        views: their memory, which is yet to be filled.
        size: how many bytes they take.
    """

    __slots__ = ("groups", "run", "size", "stamp", "views")

    def __init__(self, stamp: FrameTag | None, groups: list[Any], views: list[memoryview], size: int = 0) -> None:
        self.stamp = stamp
        self.size = size
        self.run = None if stamp is None else stamp.run
        self.groups = groups
        self.views = collections.deque(view for view in views if len(view))


def nowhere(size: int) -> Sink:
    """Return a sink that drops a number of bytes."""
    dropped = memoryview(bytearray(min(size, PIECE)))
    whole, rest = divmod(size, PIECE)
    return Sink(None, [], [dropped] * whole + [dropped[:rest]])
