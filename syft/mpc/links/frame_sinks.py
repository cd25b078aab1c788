"""Sinks: the memory that receives the current frame of another party."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syft.mpc.links.party_link import FrameTag

# Bytes that are dropped with one read.
PIECE = 1 << 16


class Sink:
    """The memory that receives one frame; without a tag the frame is dropped."""

    __slots__ = ("groups", "run", "size", "tag", "views")

    def __init__(self, tag: FrameTag | None, groups: list[Any], views: list[memoryview], size: int = 0) -> None:
        self.tag = tag
        self.size = size
        self.run = None if tag is None else tag.run
        self.groups = groups
        self.views = collections.deque(view for view in views if len(view))


def nowhere(size: int) -> Sink:
    """Return a sink that drops a number of bytes."""
    dropped = memoryview(bytearray(min(size, PIECE)))
    whole, rest = divmod(size, PIECE)
    return Sink(None, [], [dropped] * whole + [dropped[:rest]])
