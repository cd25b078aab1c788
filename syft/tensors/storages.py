"""The storages of `fix_precision`: 62-bit integers, limbs of large integers, or residues.

"auto" chooses limbs if a value, or the number of digits, needs more than 62 bits; "large" always uses limbs; "crt" uses
residues.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch

from syft._suggestions import did_you_mean
from syft.core.tensor import AbstractTensor
from syft.exceptions import SyftError
from syft.tensors import crt_rules as _crt_rules  # noqa: F401  (registers the rules of CRT tensors)
from syft.tensors import large_precision_rules as _large_rules  # noqa: F401  (registers the rules of large tensors)
from syft.tensors.crt_precision import CRTPrecisionTensor
from syft.tensors.large_precision import MAX_FIELD_BITS, LargePrecisionTensor, room_for
from syft.tensors.native import default_pytorch_maximum_precision
from syft.tensors.precision import MAX_BASE, MAX_SCALE, FixedPrecisionTensor

STORAGES = ("auto", "large", "crt")
# Links that fix_precision makes.
ENCODED = (FixedPrecisionTensor, LargePrecisionTensor, CRTPrecisionTensor)


def encode_in(storage: str, tensor: torch.Tensor, options: dict[str, Any]) -> AbstractTensor:
    """Encode a plain tensor; returns the link.

    Args:
        storage: "auto", "large" or "crt".
        tensor: real numbers.
        options: those of `fix_precision` that the caller set.
    """
    if storage not in STORAGES:
        valid = ", ".join(map(repr, STORAGES))
        hint = did_you_mean(storage, STORAGES)
        raise SyftError(f"storage must be one of {valid}; got {str(storage)[:40]!r}.{hint}")
    if storage == "crt":
        return _residues(tensor, options)
    base, digits = options.get("base", 10), options.get("precision_fractional", 3)
    if storage == "large" or _needs_limbs(tensor, base, digits, options.get("field")):
        return _limbs(tensor, options)
    if "internal_type" in options:
        warnings.warn(
            "internal_type is ignored: all values fit in 62 bits. Pass storage='large' to store limbs of that type.",
            stacklevel=4,  # encode_in, fix_precision, its decorator, the caller
        )
    kept = {name: options[name] for name in ("base", "precision_fractional", "field", "kappa") if name in options}
    return FixedPrecisionTensor(**kept, child=tensor).fix_precision()


def _needs_limbs(tensor: torch.Tensor, base: object, digits: object, field: object) -> bool:
    """Return whether a value, with its digits, needs more bits than a fixed-precision tensor has."""
    if type(base) is not int or type(digits) is not int or base < 2 or digits < 0 or tensor.is_complex():
        return False  # refused below
    if type(field) is int:
        return field > 2**64
    bits = min(digits, MAX_FIELD_BITS + 1) * math.log2(base)
    if bits > math.log2(MAX_SCALE):
        return True
    largest = _largest(tensor)
    limit = default_pytorch_maximum_precision()
    return math.isfinite(largest) and (
        math.log2(largest + 1) + bits > limit or largest * base**digits >= 2 ** (limit - 1)
    )


def _largest(tensor: torch.Tensor) -> float:
    """Return the largest absolute value of a tensor; infinity if there is none that is finite."""
    plain = tensor.detach()
    if not plain.numel() or plain.layout is not torch.strided or plain.is_quantized:
        return math.inf
    low, high = (plain if plain.is_floating_point() else plain.double()).aminmax()  # NaN if there is one
    largest = max(-float(low), float(high))
    return largest if math.isfinite(largest) else math.inf


def _limbs(tensor: torch.Tensor, options: dict[str, Any]) -> LargePrecisionTensor:
    names = ("base", "precision_fractional", "field", "internal_type")
    kept = {"base": 10, "precision_fractional": 3, **{name: options[name] for name in names if name in options}}
    if "field" not in kept:
        base, digits = kept["base"], kept["precision_fractional"]
        if type(base) is int and type(digits) is int and 0 <= digits <= MAX_FIELD_BITS and 2 <= base <= MAX_BASE:
            kept["field"] = room_for(base, digits)
    return LargePrecisionTensor(child=tensor.detach(), **kept).fix_large_precision()


def _residues(tensor: torch.Tensor, options: dict[str, Any]) -> CRTPrecisionTensor:
    if "field" in options:
        raise SyftError("storage='crt' takes a field_type instead of a field: x.fix_precision(storage='crt').")
    kept = {name: options[name] for name in ("base", "precision_fractional", "field_type") if name in options}
    return CRTPrecisionTensor.encode(tensor, **kept)
