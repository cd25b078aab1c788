"""Writes and reads npy files of one tensor.

Dtypes numpy lacks are written as integers of the same width, in a structured dtype whose one field is named
after the torch dtype, so that the file stays a valid npy file: `[('bfloat16', '<i2')]`.
The header is matched against a fixed pattern, never evaluated; `tensor_from` checks it against the length of
the data before memory is allocated.
"""

from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np
import torch

from syft.exceptions import SerdeError
from syft.serde.torch.dtypes import (
    DATA_DTYPES,
    INTEGER_OF_WIDTH,
    KNOWN_TO_NUMPY,
    MAX_DIMENSIONS,
    NAMES,
    tensor_bytes,
    tensor_from,
)

_MAGIC = b"\x93NUMPY"
_LENGTH = {1: struct.Struct("<H"), 2: struct.Struct("<I"), 3: struct.Struct("<I")}
_MAX_HEADER = 4096
_HEADER = re.compile(
    rb"\{'descr': (?:'(?P<plain>[<|][a-z]\d{1,2})'|"
    rb"\[\('(?P<name>[a-z0-9_]{1,40})', '(?P<bits>[<|][a-z]\d{1,2})'\)\]), "
    rb"'fortran_order': (?P<fortran>True|False), 'shape': \((?P<shape>[\d, ]*)\),? ?\} *\n?"
)


def _numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    return np.dtype(NAMES[dtype])


_DESCR: dict[torch.dtype, str] = {dtype: _numpy_dtype(dtype).str for dtype in KNOWN_TO_NUMPY}
_DTYPE = {descr: dtype for dtype, descr in _DESCR.items()}
_BITS: dict[int, str] = {width: _numpy_dtype(dtype).str for width, dtype in INTEGER_OF_WIDTH.items()}


def write_tensor(tensor: torch.Tensor) -> bytes:
    """Write a tensor as the bytes of an npy file."""
    data = tensor_bytes(tensor)  # keeps its memory alive until the join
    descr = _DESCR.get(tensor.dtype)
    described = f"'{descr}'" if descr else f"[('{NAMES[tensor.dtype]}', '{_BITS[tensor.dtype.itemsize]}')]"
    shape = tuple(tensor.shape)
    header = f"{{'descr': {described}, 'fortran_order': False, 'shape': {shape}, }}"
    room = len(_MAGIC) + 4
    header += " " * (-(room + len(header) + 1) % 64) + "\n"
    return b"".join((_MAGIC, b"\x01\x00", struct.pack("<H", len(header)), header.encode("ascii"), data.view))


def read_tensor(data: bytes) -> torch.Tensor:
    """Read the tensor of an npy file."""
    major = data[6] if data[:6] == _MAGIC and len(data) >= 12 else 0
    length = _LENGTH.get(major)
    if length is None:
        raise _bad("it does not start like one")
    start = 8 + length.size
    size = length.unpack_from(data, 8)[0]
    if size > _MAX_HEADER or start + size > len(data):
        raise _bad("its header is too long")
    found = _HEADER.fullmatch(data, start, start + size)
    if found is None:
        raise _bad("its header does not describe numbers")
    shape = _shape(found["shape"])
    dtype = _dtype(found)
    body = memoryview(data)[start + size :].toreadonly()
    if found["fortran"] == b"True" and len(shape) > 1:
        flipped = tensor_from(body, dtype, shape[::-1])
        return flipped.permute(*range(len(shape) - 1, -1, -1)).contiguous()
    return tensor_from(body, dtype, shape)


def _shape(text: bytes) -> tuple[int, ...]:
    items = [item.strip() for item in text.split(b",")]
    if items and not items[-1]:
        items.pop()
    if len(items) > MAX_DIMENSIONS or not all(re.fullmatch(rb"\d{1,19}", item) for item in items):
        raise _bad("its shape is not a tuple of sizes")
    return tuple(int(item) for item in items)


def _dtype(found: re.Match[bytes]) -> torch.dtype:
    if found["plain"]:
        dtype = _DTYPE.get(found["plain"].decode("ascii"))
    else:
        dtype = DATA_DTYPES.get(found["name"].decode("ascii"))
        if dtype in _DESCR or (dtype is not None and found["bits"].decode("ascii") != _BITS[dtype.itemsize]):
            dtype = None
    if dtype is None:
        raise _bad("its dtype is unknown")
    return dtype


def _bad(reason: str) -> SerdeError:
    return SerdeError(f"The message holds a tensor in npy format that is refused: {reason}.")
