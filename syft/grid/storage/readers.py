"""Readers of data files as tensors, by file extension. None of them runs code from a file.

Errors have texts of this library, because those of torch and numpy suggest disabling the protection against code in
files.
"""

from __future__ import annotations

import json
import math
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from syft.exceptions import QuotaExceededError
from syft.grid.storage.csv_reader import UnreadableFileError, read_csv

# The contents of a file: tensors by name ("" for a single one), and a description.
Contents = tuple[dict[str, torch.Tensor], str | None]
_MAX_HEADER = 100 * 2**20


def _read_torch(path: Path) -> Contents:
    found = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(found, torch.Tensor):
        return {"": found}, None
    if isinstance(found, dict):
        named = {str(key): value for key, value in found.items()}
    elif isinstance(found, list | tuple):
        named = {str(number): value for number, value in enumerate(found)}
    else:
        raise UnreadableFileError(f"it holds a {type(found).__name__}, not tensors")
    if not named or not all(isinstance(value, torch.Tensor) for value in named.values()):
        raise UnreadableFileError("it holds values that are not tensors")
    return named, None


def _of_array(array: Any) -> torch.Tensor:
    if array.dtype.kind not in "biufc":
        raise UnreadableFileError(f"it holds values of type {array.dtype}, not numbers")
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))


def _read_npy(path: Path) -> Contents:
    with path.open("rb") as file:
        found = np.load(file, allow_pickle=False)
        if not isinstance(found, np.ndarray):
            raise UnreadableFileError("it holds several arrays; rename it to .npz")
        return {"": _of_array(found)}, None


def _read_npz(path: Path) -> Contents:
    with path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        if isinstance(archive, np.ndarray) or not archive.files:
            raise UnreadableFileError("it holds no named arrays")
        return {name: _of_array(archive[name]) for name in archive.files}, None


_SAFE_DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}


def _read_safetensors(path: Path) -> Contents:
    with path.open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        if size > _MAX_HEADER:
            raise UnreadableFileError("its header is too large")
        header = json.loads(file.read(size))
        data = bytearray(file.read())
    header.pop("__metadata__", None)
    if not header:
        raise UnreadableFileError("it holds no tensors")
    return {str(name): _safe_tensor(data, row) for name, row in header.items()}, None


def _safe_tensor(data: bytearray, row: dict[str, Any]) -> torch.Tensor:
    dtype, shape, (start, end) = _SAFE_DTYPES[row["dtype"]], tuple(map(int, row["shape"])), row["data_offsets"]
    if not 0 <= start <= end <= len(data) or end - start != dtype.itemsize * int(np.prod(shape, dtype=np.int64)):
        raise UnreadableFileError("its header does not match its data")
    if start == end:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(memoryview(data)[start:end], dtype=torch.uint8).clone().view(dtype).reshape(shape)


READERS: dict[str, Callable[[Path], Contents]] = {
    ".pt": _read_torch,
    ".pth": _read_torch,
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".csv": read_csv,
    ".safetensors": _read_safetensors,
}
_TENSORS = "a tensor, or a dict, list or tuple of tensors, as torch.save writes them; save the state_dict() of a module"
_MAY_HOLD = {
    ".pt": _TENSORS,
    ".pth": _TENSORS,
    ".npy": "one array of numbers, as numpy.save writes it; no Python objects",
    ".npz": "arrays of numbers by name, as numpy.savez writes them; no Python objects",
    ".csv": "numbers in UTF-8 with commas between them, and names of columns in the first line if it has any",
    ".safetensors": "tensors by name, as safetensors writes them",
}


def read_file(path: Path, room: float = math.inf) -> Contents:
    """Read the tensors of a file.

    Args:
        path: the file; its extension is one of READERS.
        room: the free bytes; a file that needs more is not read.

    Raises:
        UnreadableFileError: its contents are not supported.
        QuotaExceededError: it is too large.
        OSError: it can't be opened.
    """
    kind = path.suffix.lower()
    check_room(path, room)
    try:
        with warnings.catch_warnings(action="ignore"):  # the readers report the relevant problems themselves
            return READERS[kind](path)
    except (UnreadableFileError, OSError):
        raise
    except Exception:  # on malformed files the libraries raise arbitrary errors
        raise UnreadableFileError(f"it can't be read; a {kind} file must hold {_MAY_HOLD[kind]}") from None


def check_room(path: Path, room: float) -> None:
    """Refuse a file that needs more than `room` bytes, without reading it.

    Raises:
        QuotaExceededError: it is too large.
    """
    size = _min_bytes(path)
    if size > room:
        raise QuotaExceededError(
            f"it needs {_amount(size)} of memory, and {_amount(max(room, 0))} are free; raise --max-bytes or delete "
            "objects"
        )


def _min_bytes(path: Path) -> int:
    """Return the minimum of the bytes that the values of a file take; 0 for text, which may shrink."""
    kind = path.suffix.lower()
    if kind == ".csv":
        return 0
    if kind == ".npz" and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return sum(part.file_size for part in archive.infolist())
    return path.stat().st_size


def _amount(size: float) -> str:
    """Format a number of bytes.

    Example:
        >>> _amount(5 * 2**30), _amount(1200)
        ('5.0G', '1.2K')
    """
    for unit in ("", "K", "M"):
        if size < 1024:
            return f"{size:.0f}" if not unit else f"{size:.1f}{unit}"
        size /= 1024
    return f"{size:.1f}G"
