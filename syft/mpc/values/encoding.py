"""Fixed-point encoding: numbers as integers in units of 1/scale, and back; values out of range are refused."""

from __future__ import annotations

import math
import sys

import torch

from syft.core.providers import providers
from syft.exceptions import SyftError
from syft.mpc.values import ring_ops, sharing
from syft.tensors.precision import LIMIT, FixedPrecisionTensor


def bound(field: int) -> int:
    """Return the bound of encoded values, which lie in [-bound, bound) for even fields, else in [-bound, bound]."""
    return min(field // 2, LIMIT)


def _fits(low: float, high: float, field: int) -> bool:
    """Return whether encoded values are in range."""
    return -bound(field) <= low and high < bound(field) + (field < LIMIT and field % 2)


def _refuse(what: str, scale: int, field: int) -> SyftError:
    limit = bound(field) / scale
    return SyftError(
        f"{what} can't be encoded: with {scale} units to one and a field of {field}, values lie between "
        f"{-limit:.4g} and {limit:.4g}. Use fewer digits (precision_fractional) or scale the values down first."
    )


def not_finite_error() -> SyftError:
    """Return the error for tensors with NaN or infinity."""
    return SyftError("Fixed precision cannot represent NaN and infinity. Replace them first with torch.nan_to_num.")


def encode_number(number: float | int, scale: int, field: int = 2**62) -> int:
    """Return a number as units of 1/scale."""
    if isinstance(number, complex) or (isinstance(number, float) and not math.isfinite(number)):
        raise SyftError(f"Fixed precision represents finite real numbers only, got {number}.")
    units = number * scale if isinstance(number, int) else round(number * scale)
    if not _fits(units, units, field):
        raise _refuse("This number", scale, field)
    return int(units)


def encode_plain(tensor: torch.Tensor, scale: int, field: int = 2**62, check_range: bool = True) -> torch.Tensor:
    """Return a plain tensor as units of 1/scale (int64)."""
    if tensor.is_complex() or tensor.is_quantized or tensor.layout is not torch.strided:
        raise SyftError(f"A {tensor.dtype} tensor can't be encoded in fixed precision; convert it to float32 first.")
    tensor = tensor.detach()
    if not tensor.is_floating_point():
        whole = tensor.to(torch.int64)
        low, high = (int(end) for end in whole.aminmax()) if whole.numel() else (0, 0)
        if tensor.dtype is torch.uint64 and low < 0:  # 2^63 and more
            raise _refuse("A value of this tensor", scale, field)
        if check_range and not _fits(low * scale, high * scale, field):
            raise _refuse("A value of this tensor", scale, field)
        return whole * scale
    scaled = (tensor.double() * scale).round()
    if not bool(torch.isfinite(scaled).all()):
        raise not_finite_error()
    if check_range and scaled.numel() and not _fits(float(scaled.min()), float(scaled.max()), field):
        raise _refuse("A value of this tensor", scale, field)
    return scaled.to(torch.int64)


def decode_plain(whole: torch.Tensor, scale: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return units of 1/scale as floats."""
    return (whole.double() / scale).to(dtype)


def encode(tensor: torch.Tensor, link: FixedPrecisionTensor, check_range: bool = True) -> torch.Tensor:
    """Encode a plain tensor in the format of a link."""
    if not isinstance(tensor, torch.Tensor):
        raise SyftError(f"A {type(tensor).__name__} can't be encoded in fixed precision.")
    return encode_plain(tensor, link.scale, link.field, check_range)


def decode(whole: torch.Tensor, link: FixedPrecisionTensor) -> torch.Tensor:
    """Decode integers in the format of a link."""
    return decode_plain(whole, link.scale, link.decodes_to)


truncate, share = ring_ops.truncate, sharing.split
providers.codec = sys.modules[__name__]
