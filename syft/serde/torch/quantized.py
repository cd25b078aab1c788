"""Tensors that are quantized per tensor: their integers, with a scale and a zero point."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import torch

from syft.exceptions import SerdeError
from syft.serde.buffer import Buffer, as_view
from syft.serde.torch.dtypes import DTYPE_BY_NAME, tensor_bytes, tensor_from

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

# Name of a quantized dtype -> the dtype of its integers.
INTEGERS: dict[str, torch.dtype] = {
    name: integers
    for name, integers in (("qint8", torch.int8), ("quint8", torch.uint8), ("qint32", torch.int32))
    if name in DTYPE_BY_NAME
}

Parts = tuple[Any, ...]


def write_quantized(tensor: torch.Tensor) -> tuple[str, tuple[int, ...], Buffer, tuple[float, int]]:
    """Write a quantized tensor: (dtype name, shape, bytes of its integers, (scale, zero point))."""
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in INTEGERS or tensor.qscheme() is not torch.per_tensor_affine:
        raise SerdeError(
            f"A tensor can't be serialized: it is quantized as {tensor.qscheme()} of {tensor.dtype}. "
            "Call .dequantize() first, or quantize it per tensor as qint8, quint8 or qint32."
        )
    values = tensor.detach().int_repr()
    return name, tuple(tensor.shape), tensor_bytes(values), (float(tensor.q_scale()), int(tensor.q_zero_point()))


def read_quantized(worker: BaseWorker | None, name: str, shape: tuple[int, ...], data: object, rule: Parts) -> Any:
    """Read a quantized tensor, if the worker takes them, and check all of its parts."""
    if worker is not None and not getattr(worker, "takes_quantized_tensors", False):
        raise SerdeError("This worker takes no quantized tensors. Send x.dequantize() instead.")
    if type(rule) is not tuple or len(rule) != 2:
        raise SerdeError("The message holds a quantized tensor without a scale and a zero point.")
    scale, zero_point = rule
    if type(scale) is not float or not math.isfinite(scale) or scale <= 0:
        raise SerdeError("The message holds a quantized tensor whose scale is not a positive number.")
    bounds = torch.iinfo(INTEGERS[name])
    if type(zero_point) is not int or not bounds.min <= zero_point <= bounds.max:
        raise SerdeError(f"The message holds a quantized tensor whose zero point is not in the range of {name}.")
    integers = tensor_from(as_view(data), INTEGERS[name], shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch announces the end of these dtypes
        return torch._make_per_tensor_quantized_tensor(integers, scale, zero_point)
