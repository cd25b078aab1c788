"""Whole numbers of any size: arrays of Python integers, made of tensors, split into limbs, and read as floats.

An array of integers is a numpy array of dtype object. The limbs of a number are its digits of base 2 ** bits, the most
significant first; all limbs of a negative number are negative, so sums of limbs are limbs of sums.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import torch

from syft.exceptions import SyftError

Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.object_]]"


def integers(values: object, shape: tuple[int, ...] | None = None) -> Integers:
    """Return Python integers as an array; numpy returns bare numbers instead of arrays without dimensions."""
    made = np.asarray(values, dtype=object)
    return made if shape is None else made.reshape(shape)


def to_units(tensor: torch.Tensor, scale: int, nearest: bool = False) -> Integers:
    """Return the values of a plain tensor in units of 1/scale, exactly rounded.

    Args:
        tensor: real numbers, without NaN and infinity.
        scale: the number of units to one.
        nearest: round to the nearest unit, and from the middle to the even one; otherwise round down.
    """
    if tensor.is_complex() or tensor.is_quantized or tensor.layout is not torch.strided:
        raise SyftError(f"A {tensor.dtype} tensor can't be encoded in fixed precision; convert it to float32 first.")
    plain = tensor.detach().cpu()
    if not plain.is_floating_point():
        flat = [int(value) * scale for value in plain.reshape(-1).tolist()]
    else:
        if not bool(torch.isfinite(plain).all()):
            raise SyftError(
                "Fixed precision cannot represent NaN and infinity. Replace them first with torch.nan_to_num."
            )
        flat = [_rounded(value, scale, nearest) for value in plain.double().reshape(-1).tolist()]
    return _array(flat, tuple(tensor.shape))


def number_to_units(number: float, scale: int, nearest: bool = False) -> int:
    """Return a Python number in units of 1/scale, as `to_units` does."""
    if isinstance(number, int):
        return int(number) * scale
    if not math.isfinite(number):
        raise SyftError(f"Fixed precision represents finite real numbers only, got {number}.")
    return _rounded(number, scale, nearest)


def _rounded(value: float, scale: int, nearest: bool) -> int:
    numerator, denominator = value.as_integer_ratio()
    return quotient(numerator * scale, denominator) if nearest else numerator * scale // denominator


def quotient(numerator: int, denominator: int) -> int:
    """Divide by a positive integer, rounding to the nearest, and from the middle to the even number."""
    whole, rest = divmod(numerator, denominator)
    return whole + (2 * rest > denominator or (2 * rest == denominator and whole % 2 == 1))


def _array(flat: list[int], shape: tuple[int, ...]) -> Integers:
    made = np.empty(len(flat), dtype=object)
    made[:] = flat
    return made.reshape(shape)


def centred(numbers: Integers, modulus: int) -> Integers:
    """Return numbers modulo an integer, those above its half as negative ones: in [-modulus/2, modulus/2)."""
    half = modulus // 2
    return integers((numbers + half) % modulus - half, numbers.shape)


def fits(numbers: Integers, modulus: int) -> bool:
    """Return whether all numbers are equal to themselves modulo an integer, see `centred`."""
    half = modulus // 2
    return all(-half <= number < modulus - half for number in numbers.reshape(-1))


def to_floats(numbers: Integers, scale: int, dtype: torch.dtype) -> torch.Tensor:
    """Return units of 1/scale as the nearest floats.

    Raises:
        SyftError: a number is beyond the largest float.
    """
    try:
        flat = [number / scale if dtype is torch.float64 else _odd(number, scale) for number in numbers.reshape(-1)]
        made = torch.tensor(flat, dtype=torch.float64).to(dtype)
    except OverflowError:
        made = torch.tensor([math.inf])
    if not bool(torch.isfinite(made).all()):
        raise SyftError(
            f"A value of this tensor is too large for {dtype}. Scale the values down first, or read the integers: "
            "x.child.reconstruct()."
        )
    return made.reshape(numbers.shape)


def _odd(numerator: int, denominator: int) -> float:
    """Divide, rounding an inexact result to the neighbour with an odd mantissa, so that it can be rounded once more."""
    near = numerator / denominator
    top, bottom = near.as_integer_ratio()
    difference = numerator * bottom - top * denominator
    if difference == 0 or int(math.frexp(near)[0] * 2**53) % 2:
        return near
    return math.nextafter(near, math.inf if difference > 0 else -math.inf)


def limb_count(modulus: int, bits: int) -> int:
    """Return the number of limbs that hold every number modulo an integer."""
    return max(1, -(-(modulus // 2).bit_length() // bits))


def split(numbers: Integers, bits: int, count: int | None = None) -> torch.Tensor:
    """Return the limbs of numbers (int64) in a last dimension: as many as are needed, or `count`."""
    size = np.abs(numbers.reshape(-1))
    if count is None:
        count = max(1, -(-max((number.bit_length() for number in size), default=1) // bits))
    sign = np.array([-1 if number < 0 else 1 for number in numbers.reshape(-1)], dtype=np.int64)
    limbs = np.empty((len(size), count), dtype=np.int64)
    for place in range(count):
        limbs[:, place] = ((size >> (bits * (count - 1 - place))) & (2**bits - 1)).astype(np.int64) * sign
    return torch.from_numpy(limbs).reshape(*numbers.shape, count)


def join(limbs: torch.Tensor, bits: int) -> Integers:
    """Return the numbers of limbs; a limb may be larger than its number of bits."""
    columns = limbs.detach().cpu().to(torch.int64).reshape(-1, limbs.shape[-1]).numpy().astype(object)
    made = np.zeros(len(columns), dtype=object)
    for place in range(columns.shape[1]):
        made = (made << bits) + columns[:, place]
    return integers(made, tuple(limbs.shape[:-1]))
