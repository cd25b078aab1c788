"""Files of an owner's data, read as tensors: name of the ending -> how it is read. None of them can run code."""

from __future__ import annotations

import csv
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

# What a file holds: tensors by name, "" where there is only one; and what can be said of it.
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
        raise ValueError(f"it holds a {type(found).__name__}, not tensors")
    if not named or not all(isinstance(value, torch.Tensor) for value in named.values()):
        raise ValueError("it holds other things than tensors")
    return named, None


def _of_array(array: Any) -> torch.Tensor:
    if array.dtype.kind not in "biufc":
        raise ValueError(f"it holds values of type {array.dtype}, not numbers")
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))


def _read_npy(path: Path) -> Contents:
    with path.open("rb") as file:
        found = np.load(file, allow_pickle=False)
        if not isinstance(found, np.ndarray):
            raise ValueError("it holds several arrays: let its name end in .npz")
        return {"": _of_array(found)}, None


def _read_npz(path: Path) -> Contents:
    with path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        if isinstance(archive, np.ndarray) or not archive.files:
            raise ValueError("it holds no arrays by name")
        return {name: _of_array(archive[name]) for name in archive.files}, None


def _read_csv(path: Path) -> Contents:
    """Read numbers, with the names of the columns in the first line if that is no line of numbers."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        first = next(csv.reader(file), [])
    if not first:
        raise ValueError("it is empty")
    named = not all(_is_number(cell) for cell in first)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for _ in range(named):
                next(csv.reader(file))
            values = np.loadtxt(file, delimiter=",", quotechar='"', comments=None, ndmin=2, dtype=np.float64)
    except ValueError:
        raise ValueError("it holds something that is not a number, or lines of different lengths") from None
    if values.size and values.shape[1] != len(first):
        raise ValueError(f"its first line has {len(first)} columns, and the others {values.shape[1]}")
    table = torch.from_numpy(values.reshape(-1, len(first)))
    description = f"columns: {', '.join(cell.strip() for cell in first)}" if named else None
    return {"": table.to(torch.get_default_dtype())}, description


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


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
            raise ValueError("its header is too large")
        header = json.loads(file.read(size))
        data = bytearray(file.read())
    header.pop("__metadata__", None)
    if not header:
        raise ValueError("it holds no tensors")
    return {str(name): _safe_tensor(data, row) for name, row in header.items()}, None


def _safe_tensor(data: bytearray, row: dict[str, Any]) -> torch.Tensor:
    dtype, shape, (start, end) = _SAFE_DTYPES[row["dtype"]], tuple(map(int, row["shape"])), row["data_offsets"]
    if not 0 <= start <= end <= len(data) or end - start != dtype.itemsize * int(np.prod(shape, dtype=np.int64)):
        raise ValueError("its parts do not fit together")
    if start == end:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(memoryview(data)[start:end], dtype=torch.uint8).clone().view(dtype).reshape(shape)


READERS: dict[str, Callable[[Path], Contents]] = {
    ".pt": _read_torch,
    ".pth": _read_torch,
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".csv": _read_csv,
    ".safetensors": _read_safetensors,
}
