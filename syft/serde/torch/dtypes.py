"""Torch dtypes by name, and tensors to and from raw bytes."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING

import torch

from syft.exceptions import SerdeError
from syft.serde.buffer import Buffer, element_count, refuse_bad_bools

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_DIMENSIONS = 64

# All dtypes, including those that can't hold data.
DTYPE_BY_NAME: dict[str, torch.dtype] = {
    str(value).removeprefix("torch."): value for value in vars(torch).values() if type(value) is torch.dtype
}

_KINDS: dict[type, str] = {
    bool: "bool",
    int: "uint8 int8 int16 int32 int64 uint16 uint32 uint64",
    float: (
        "float16 bfloat16 float32 float64 "  # the narrow ones depend on the version of torch
        "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
    ),
    complex: "complex32 complex64 complex128",
    bytes: "bits8 bits16 bits1x8 bits2x4 bits4x2 float4_e2m1fn_x2",  # no values of their own, only bits
}
# The serializable dtypes, with the Python type of one value.
PYTHON_TYPE: dict[torch.dtype, type] = {
    DTYPE_BY_NAME[n]: kind for kind, names in _KINDS.items() for n in names.split() if n in DTYPE_BY_NAME
}
DATA_DTYPES: dict[str, torch.dtype] = {str(dtype).removeprefix("torch."): dtype for dtype in PYTHON_TYPE}
NAMES: dict[torch.dtype, str] = {dtype: name for name, dtype in DATA_DTYPES.items()}
KNOWN_TO_NUMPY = frozenset(
    DATA_DTYPES[name]
    for name in "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 float32 float64 "
    "complex64 complex128".split()
)
INTEGER_OF_WIDTH = {1: torch.uint8, 2: torch.int16, 4: torch.int32}

if sys.byteorder != "little":  # pragma: no cover
    raise SerdeError("Tensors are serialized as little-endian bytes; big-endian machines are not supported.")


def data_dtype(name: object) -> torch.dtype:
    """Return the dtype of received data by name."""
    dtype = DATA_DTYPES.get(name) if type(name) is str else None
    if dtype is None:
        raise SerdeError(f"The message holds a tensor of dtype {str(name)[:40]!r}, which can't be serialized.")
    return dtype


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values as a dense, detached CPU tensor; a copy only when needed."""
    problem = _problem(tensor)
    if problem:
        raise SerdeError(f"A tensor can't be serialized: {problem}.")
    tensor = tensor.detach()
    if not tensor.is_cpu:
        tensor = tensor.cpu()
    if tensor.is_conj():
        tensor = tensor.resolve_conj()
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    return tensor


def _problem(tensor: torch.Tensor) -> str | None:
    if tensor.dtype not in PYTHON_TYPE:
        if tensor.is_quantized:
            return "it is quantized; call .dequantize() first, or write it in the format raw"
        return f"dtype {tensor.dtype} can't be sent; convert it, for example with .view(torch.uint8)"
    if tensor.is_nested:
        return "it is nested; send its .unbind() parts, or use .to_padded_tensor(0)"
    if tensor.layout is not torch.strided:
        return f"its layout is {tensor.layout}; call .to_dense() first"
    if tensor.is_meta:
        return "it is on the meta device and holds no values; make one with torch.empty_like(t, device='cpu')"
    return None


def tensor_bytes(tensor: torch.Tensor) -> Buffer:
    """View the values as bytes in row-major order; a copy only when needed."""
    tensor = plain(tensor)
    if not tensor.numel():
        return Buffer(b"")
    tensor = tensor.contiguous()
    return Buffer(_memory(tensor, _READ), owner=tensor)


_READ, _WRITE = 0x100, 0x200  # the flags of PyMemoryView_FromMemory
_memory_view = ctypes.pythonapi.PyMemoryView_FromMemory
_memory_view.restype = ctypes.py_object
_memory_view.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)


def _memory(tensor: torch.Tensor, flag: int) -> memoryview:
    """View the memory of a contiguous CPU tensor, which must outlive the view.

    Tensor.numpy() is no alternative: it makes the tensor non-resizable for good, and lacks dtypes.
    """
    address = tensor.data_ptr()
    if not address:
        raise SerdeError("A tensor can't be serialized: it has no memory of its own; call .clone() first.")
    return _memory_view(address, tensor.numel() * tensor.itemsize, flag)  # type: ignore[no-any-return]


# The minimum alignment of torch's own memory; some kernels load whole vectors.
_ALIGNED = 16


def tensor_from(view: memoryview, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    """Build a tensor, and check that its size fits its shape.

    A read-only view is copied. A writable one is used without a copy if it is most of the message: a small tensor must
    not keep a large message in memory.
    """
    expected = element_count(shape, MAX_DIMENSIONS) * dtype.itemsize
    if expected != len(view):
        raise SerdeError(f"The message holds a tensor of {expected} bytes with {len(view)} bytes of data.")
    if dtype is torch.bool:
        refuse_bad_bools(view)
    whole = view.obj if isinstance(view.obj, bytearray | bytes) else view
    if expected and not view.readonly and 8 * expected >= 7 * len(whole):
        found = torch.frombuffer(view, dtype=dtype).view(shape)
        if found.data_ptr() % _ALIGNED == 0:
            return found
    tensor = torch.empty(shape, dtype=dtype)
    if expected:
        _memory(tensor, _WRITE)[:] = view
    return tensor
