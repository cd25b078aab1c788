"""Plain numbers as integers, and back: fixed-point numbers whose scale and bound do not depend on the values.

A number v is the integer round(v * 2 ** scale). The scale follows from the key and from whether the dtype is one of
whole numbers. The bound, the largest absolute integer, follows from the dtype and the key. Both are public, so they
must not follow from the values.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch

from syft.exceptions import SyftError, UnsupportedOperationError
from syft.he.paillier import Modulus

_WHOLE_BOUNDS = {
    torch.bool: 1,
    torch.uint8: 2**8,
    torch.uint16: 2**16,
    torch.uint32: 2**32,
    torch.uint64: 2**64,
    torch.int8: 2**7,
    torch.int16: 2**15,
    torch.int32: 2**31,
    torch.int64: 2**63,
}
_NUMBER_BOUND = 2**64
# Divisors above 2 ** (2 * fraction - DIVISOR_BITS) would have reciprocals of fewer significant bits than these.
DIVISOR_BITS = 24


class Integers(NamedTuple):
    """Encoded plain numbers.

    Attributes:
        values: Python integers, an array of objects.
        scale: their fractional bits.
        bound: their largest absolute value, whatever they are.
        whole: whether they are of a dtype of whole numbers.
    """

    values: np.ndarray[Any, Any]
    scale: int
    bound: int
    whole: bool


def is_number(value: object) -> bool:
    """Say whether a value is a plain operand: a number, a scalar or an array of numpy, or a plain tensor."""
    return isinstance(value, bool | int | float | np.generic | np.ndarray) or type(value) in (
        torch.Tensor,
        torch.nn.Parameter,
    )


def encode(key: Modulus, plain: Any, fraction: int, call: str) -> Integers:
    """Encode a plain operand; floating-point numbers get `fraction` fractional bits.

    Args:
        key: the public key.
        plain: a number, an array of numpy or a plain tensor.
        fraction: the fractional bits of floating-point numbers.
        call: the user's call, for errors.
    """
    if isinstance(plain, bool | int):
        if abs(plain) >= _NUMBER_BOUND:
            raise SyftError(f"{call} needs whole numbers of at most 64 bits. Use a floating-point number.")
        return Integers(objects([int(plain)], ()), 0, _NUMBER_BOUND, True)
    tensor = _checked(plain, call)
    if tensor.dtype in _WHOLE_BOUNDS:
        numbers = [int(v) for v in tensor.reshape(-1).tolist()]
        return Integers(objects(numbers, tensor.shape), 0, _WHOLE_BOUNDS[tensor.dtype], True)
    _check_size(tensor, key, call)
    numbers = [round(math.ldexp(v, fraction)) for v in tensor.reshape(-1).tolist()]
    return Integers(objects(numbers, tensor.shape), fraction, 2 ** (fraction + key.magnitude), False)


def encode_reciprocals(key: Modulus, divisors: Any) -> Integers:
    """Encode 1 / d for each plain divisor d, with twice the usual fractional bits."""
    tensor = _checked(torch.as_tensor(divisors), "div").to(torch.float64)
    scale, small = 2 * key.fraction, 2.0**-key.magnitude
    large = 2.0 ** (scale - DIVISOR_BITS)
    size = tensor.abs()
    if not bool(torch.isfinite(tensor).all() & (size > small).all() & (size <= large).all()):
        raise SyftError(
            f"div() by plain numbers needs absolute values between {small:.3g} and {large:.3g} with a {key}; "
            "zero, nan and infinity are refused."
        )
    numbers = []
    for value in tensor.reshape(-1).tolist():
        top, bottom = float(value).as_integer_ratio()
        numbers.append(round_quotient(bottom << scale, top))
    return Integers(objects(numbers, tensor.shape), scale, 2 ** (scale + key.magnitude), False)


def round_quotient(top: int, bottom: int) -> int:
    """Divide integers, rounding to the nearest."""
    if bottom < 0:
        top, bottom = -top, -bottom
    return (2 * top + bottom) // (2 * bottom)


def decode(numbers: list[int], shape: tuple[int, ...], scale: int, whole: bool) -> torch.Tensor:
    """Return decrypted integers as a tensor: int64 for whole numbers, else of torch's default dtype."""
    if whole:
        if any(not -(2**63) <= number < 2**63 for number in numbers):
            raise SyftError(
                "decrypt() found a whole number of more than 64 bits. Encrypt floating-point numbers instead: "
                "x.double().encrypt(public_key)."
            )
        return torch.tensor(numbers, dtype=torch.int64).reshape(shape)
    unit = 1 << scale
    try:
        made = torch.tensor([number / unit for number in numbers], dtype=torch.float64).reshape(shape)
    except OverflowError:
        made = torch.full(shape, math.inf, dtype=torch.float64)
    made = made.to(torch.get_default_dtype())
    if not bool(torch.isfinite(made).all()):
        raise SyftError(
            f"decrypt() found a number that is too large for {made.dtype}, the default dtype. "
            "Use torch.set_default_dtype(torch.float64)."
        )
    return made


def objects(values: list[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Make an array of objects."""
    return np.fromiter(values, dtype=object, count=len(values)).reshape(shape)


def _checked(plain: Any, call: str) -> torch.Tensor:
    """Return a plain operand as a tensor of float64 or of whole numbers."""
    if isinstance(plain, np.generic | np.ndarray | float):
        plain = torch.as_tensor(plain, dtype=torch.float64 if isinstance(plain, float) else None)
    tensor: torch.Tensor = plain.detach()
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_complex():
        kind = "complex" if tensor.is_complex() else "quantized" if tensor.is_quantized else "sparse"
        raise UnsupportedOperationError(
            f"{call} with a {kind} tensor", "Paillier ciphertexts", "Use a dense tensor of real numbers."
        )
    return tensor if tensor.dtype in _WHOLE_BOUNDS else tensor.to(torch.float64)


def _check_size(tensor: torch.Tensor, key: Modulus, call: str) -> None:
    """Refuse floating-point numbers that do not fit; the text must not depend on the values any further."""
    if not bool(torch.isfinite(tensor).all()):
        raise SyftError(f"{call} needs finite numbers; this tensor has nan or infinity. Use torch.nan_to_num(x).")
    if bool((tensor.abs() >= 2.0**key.magnitude).any()):
        raise SyftError(
            f"{call} needs absolute values below 2**{key.magnitude} with a {key}. Divide the numbers first, "
            "or use a longer key: sy.keygen(n_length=...)."
        )
