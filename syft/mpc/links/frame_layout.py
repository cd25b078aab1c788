"""Forms: how a frame says what tensors it carries, and the memory that they are sent from and received into."""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Iterable
from typing import Any

import torch

from syft.exceptions import ProtocolError

_DTYPES = (torch.int64, torch.uint8, torch.int32, torch.bool, torch.int16, torch.int8)
_CODES = {dtype: code for code, dtype in enumerate(_DTYPES)}
_FORM = struct.Struct("<BB")
_COUNT = struct.Struct("<H")
# In place of a count: nothing is sent for this request.
_NOTHING = 0xFFFF

if sys.byteorder != "little":
    raise ImportError("Shares travel as they are in memory, which takes a processor with little-endian numbers.")


def bytes_of(tensor: torch.Tensor) -> memoryview:
    """Return the memory of a contiguous tensor."""
    if not tensor.numel():
        return memoryview(b"")
    return memoryview(tensor.view(-1).numpy()).cast("B")  # type: ignore[arg-type]


def write_forms(groups: Iterable[tuple[torch.Tensor, ...] | None]) -> bytes:
    """Write the forms of the tensors of each request; None where nothing is sent for it."""
    written = []
    for tensors in groups:
        written.append(_COUNT.pack(_NOTHING if tensors is None else len(tensors)))
        for tensor in tensors or ():
            code = _CODES.get(tensor.dtype)
            if code is None:
                raise ProtocolError(f"Parties send each other whole numbers, not {tensor.dtype}.")
            written.append(_FORM.pack(code, tensor.dim()) + struct.pack(f"<{tensor.dim()}Q", *tensor.shape))
    return b"".join(written)


def read_forms(forms: bytes, size: int) -> list[tuple[torch.Tensor, ...] | None]:
    """Make empty tensors for what a frame announces, which must come to exactly `size` bytes."""
    groups: list[list[tuple[Any, tuple[int, ...]]] | None] = []
    at, total = 0, 0
    try:
        while at < len(forms):
            (count,) = _COUNT.unpack_from(forms, at)
            at += _COUNT.size
            group: list[tuple[Any, tuple[int, ...]]] = []
            for _ in range(0 if count == _NOTHING else count):
                code, dims = _FORM.unpack_from(forms, at)
                shape = struct.unpack_from(f"<{dims}Q", forms, at + _FORM.size)
                at += _FORM.size + 8 * dims
                group.append((_DTYPES[code], shape))
                total += math.prod(shape) * _DTYPES[code].itemsize
            groups.append(None if count == _NOTHING else group)
    except (struct.error, IndexError):
        raise ProtocolError("its frame can't be read") from None
    if total != size:
        raise ProtocolError("the sizes in its frame do not fit")
    try:
        return [None if group is None else tuple(torch.empty(s, dtype=d) for d, s in group) for group in groups]
    except (RuntimeError, TypeError):  # sizes that no tensor has
        raise ProtocolError("the sizes in its frame do not fit") from None
