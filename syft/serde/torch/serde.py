"""Tensors in the file formats of torch and numpy.

Writers accept any dense tensor; readers accept untrusted bytes and either return a plain CPU tensor that owns
its memory, or raise SerdeError.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import torch

from syft.exceptions import SerdeError
from syft.serde.torch import archive, npy
from syft.serde.torch.dtypes import DTYPE_BY_NAME, plain

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker


# The documented tables: dtype by name without "torch.", and the inverse.
TORCH_STR_DTYPE: dict[str, torch.dtype] = dict(DTYPE_BY_NAME)
TORCH_DTYPE_STR: dict[torch.dtype, str] = {
    dtype: str(dtype).removeprefix("torch.") for dtype in TORCH_STR_DTYPE.values()
}


def torch_tensor_serializer(worker: BaseWorker | None, tensor: torch.Tensor) -> bytes:
    """Write a tensor in `torch.save` format."""
    values = plain(tensor)
    if values.untyped_storage().nbytes() != values.numel() * values.itemsize:
        values = values.clone()  # the file of a view would hold all values of its base
    out = io.BytesIO()
    torch.save(values, out)
    return out.getvalue()


def torch_tensor_deserializer(worker: BaseWorker | None, tensor_bin: bytes) -> torch.Tensor:
    """Read a tensor in `torch.save` format."""
    return archive.read_tensor(_as_bytes(tensor_bin))


def numpy_tensor_serializer(worker: BaseWorker | None, tensor: torch.Tensor) -> bytes:
    """Write a tensor in npy format."""
    return npy.write_tensor(tensor)


def numpy_tensor_deserializer(worker: BaseWorker | None, tensor_bin: bytes) -> torch.Tensor:
    """Read a tensor in npy format."""
    return npy.read_tensor(_as_bytes(tensor_bin))


def _as_bytes(data: object) -> bytes:
    if isinstance(data, bytes):
        return data
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    raise SerdeError(f"The message holds {type(data).__name__} where the bytes of a tensor are needed.")
