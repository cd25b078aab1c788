"""Frames between parties: the layout of their tensors, and the memory that they are sent from and received into."""

from __future__ import annotations

import collections
import dataclasses
import math
import struct
import sys
from collections.abc import Iterable
from typing import Any

import torch

from syft.exceptions import ProtocolError

_DTYPES = (torch.int64, torch.uint8, torch.int32, torch.bool, torch.int16, torch.int8)
_CODES = {dtype: code for code, dtype in enumerate(_DTYPES)}
_SPEC = struct.Struct("<BB")
_COUNT = struct.Struct("<H")
# In place of a count: nothing is sent for this request.
_NOTHING = 0xFFFF

# Bytes that are dropped with one read.
_PIECE = 1 << 16

if sys.byteorder != "little":
    raise ImportError("Shares are sent as they are in memory, which needs a little-endian processor.")


def bytes_of(tensor: torch.Tensor) -> memoryview:
    """Return the memory of a contiguous tensor."""
    if not tensor.numel():
        return memoryview(b"")
    return memoryview(tensor.view(-1).numpy()).cast("B")  # type: ignore[arg-type]


def write_layout(groups: Iterable[tuple[torch.Tensor, ...] | None]) -> bytes:
    """Return the layout of the tensors of each request; None for a request without tensors."""
    written = []
    for tensors in groups:
        written.append(_COUNT.pack(_NOTHING if tensors is None else len(tensors)))
        for tensor in tensors or ():
            code = _CODES.get(tensor.dtype)
            if code is None:
                raise ProtocolError(f"Parties can exchange integer tensors only, got {tensor.dtype}.")
            written.append(_SPEC.pack(code, tensor.dim()) + struct.pack(f"<{tensor.dim()}Q", *tensor.shape))
    return b"".join(written)


def read_layout(layout: bytes, size: int) -> list[tuple[torch.Tensor, ...] | None]:
    """Return empty tensors for a layout, which must need exactly `size` bytes."""
    groups: list[list[tuple[torch.dtype, tuple[int, ...]]] | None] = []
    at, total = 0, 0
    try:
        while at < len(layout):
            (count,) = _COUNT.unpack_from(layout, at)
            at += _COUNT.size
            group: list[tuple[torch.dtype, tuple[int, ...]]] = []
            for _ in range(0 if count == _NOTHING else count):
                code, dims = _SPEC.unpack_from(layout, at)
                shape = struct.unpack_from(f"<{dims}Q", layout, at + _SPEC.size)
                at += _SPEC.size + 8 * dims
                group.append((_DTYPES[code], shape))
                total += math.prod(shape) * _DTYPES[code].itemsize
            groups.append(None if count == _NOTHING else group)
    except (struct.error, IndexError):
        raise ProtocolError("its layout can't be read") from None
    if total != size:
        raise ProtocolError("the sizes of its tensors and of the frame differ")
    try:
        return [None if group is None else tuple(torch.empty(s, dtype=d) for d, s in group) for group in groups]
    except (RuntimeError, TypeError):  # sizes that no tensor has
        raise ProtocolError("the sizes of its tensors and of the frame differ") from None


@dataclasses.dataclass(frozen=True, slots=True)
class FrameTag:
    """The run and the round of a frame.

    Attributes:
        run: the tag of the run, 33 bytes.
        round: its round.
        instance: the number of runs that its key was dealt for; 0 before the first deal.
        seeds: the generation of the dealer's seeds; 0 before the first deal.
    """

    run: bytes
    round: int
    instance: int
    seeds: int


class Sink:
    """The memory that receives one frame; without a tag the frame is dropped."""

    __slots__ = ("groups", "size", "tag", "views")

    def __init__(self, tag: FrameTag | None, groups: list[Any], views: Iterable[memoryview], size: int = 0) -> None:
        self.tag = tag
        self.groups = groups
        self.size = size
        # The memory of the tensors that is not filled yet.
        self.views = collections.deque(view for view in views if len(view))

    @classmethod
    def dropping(cls, size: int) -> Sink:
        """Return a sink that drops a number of bytes."""
        dropped = memoryview(bytearray(min(size, _PIECE)))
        whole, rest = divmod(size, _PIECE)
        return cls(None, [], [dropped] * whole + [dropped[:rest]])
