"""Ciphertexts: an array of Paillier ciphertexts of one key, with one public scale and one public bound.

The product of two ciphertexts encrypts the sum of their integers, and a power of a ciphertext encrypts a multiple.
Every operation computes the bound of its result first, and refuses if the integers might not fit into the key, so that
no result ever wraps around.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import torch

from syft.core import generator
from syft.exceptions import SyftError
from syft.he.encoding import Integers, decode, encode, objects
from syft.he.modular import arithmetic
from syft.he.paillier import Modulus, check_private_key
from syft.he.pool import core_count, in_threads
from syft.he.weighted_sums import weighted_sums

Array = np.ndarray[Any, Any]
# Largest number of elements of a tensor: repeating and expanding make copies.
MAX_ELEMENTS = 2**24


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ciphertexts:
    """Encrypted numbers; never changed in place.

    Attributes:
        key: the public key.
        values: the ciphertexts, an array of numbers of gmpy2, or of Python.
        scale: fractional bits of the encrypted integers.
        bound: largest absolute value that an encrypted integer can have.
        whole: whether they are decrypted to whole numbers.
        fresh: whether the ciphertexts are randomised, and not computed from others. Others are randomised before they
            leave, because factors and indices could be found by trying.
    """

    key: Modulus
    values: Array
    scale: int
    bound: int
    whole: bool
    fresh: bool = False

    @property
    def shape(self) -> torch.Size:
        """The shape of the tensor."""
        return torch.Size(self.values.shape)

    def flat(self) -> list[Any]:
        """Return the ciphertexts in order."""
        return self.values.reshape(-1).tolist()

    def __repr__(self) -> str:
        return f"{tuple(self.shape)} under a {self.key}"


def made(x: Ciphertexts, values: Array, scale: int, bound: int, whole: bool) -> Ciphertexts:
    """Return a result under the key of an operand."""
    return Ciphertexts(x.key, values, scale, check_bound(x.key, bound), whole)


def check_bound(key: Modulus, bound: int) -> int:
    """Return a bound that fits into a key, or raise."""
    if bound > key.limit:
        raise SyftError(
            f"The result may need {bound.bit_length() + 1} bits, but a {key} holds {key.limit.bit_length()}. "
            "Decrypt and encrypt again after several products, or use a longer key: sy.keygen(n_length=...)."
        )
    return bound


# --- encryption ---------------------------------------------------------------------------------------------------


def encrypt(key: Modulus, plain: Any) -> Ciphertexts:
    """Encrypt a plain tensor; each element gets randomness of its own."""
    return randomised(trivial(key, encode(key, plain, key.fraction, "encrypt()")))


def trivial(key: Modulus, plain: Integers) -> Ciphertexts:
    """Return plain numbers as ciphertexts without randomness; they hide nothing until they are randomised."""
    n, number = key.n, arithmetic().number
    values = [1 + n * (number(m) % n) for m in plain.values.reshape(-1).tolist()]
    shape = plain.values.shape
    return Ciphertexts(key, objects(values, shape), plain.scale, check_bound(key, plain.bound), plain.whole)


def randomised(x: Ciphertexts) -> Ciphertexts:
    """Return ciphertexts of the same numbers that can't be linked to these: each is multiplied by r ** n."""
    if x.fresh:
        return x
    n, square, power = x.key.n, x.key.square, arithmetic().power

    def blinded(value: Any) -> Any:
        return value * power(_random_below(n), n, square) % square

    values = objects(in_threads("encrypting", blinded, x.flat()), x.values.shape)
    return dataclasses.replace(x, values=values, fresh=True)


def _random_below(n: Any) -> Any:
    """Draw a number from 1 to n - 1; 128 bits more than needed make it uniform."""
    drawn = generator.local().bytes((n.bit_length() + 7) // 8 + 16)
    return arithmetic().number(int.from_bytes(drawn, "big")) % (n - 1) + 1


def decrypt(x: Ciphertexts, private_key: Any) -> torch.Tensor:
    """Decrypt to a plain tensor."""
    check_private_key(private_key, x.key)
    n = int(x.key.n)
    found = in_threads("decrypting", lambda value: private_key.raw_decrypt(int(value)), x.flat())
    numbers = [number - n if number > n // 2 else number for number in found]
    if any(abs(number) > x.bound for number in numbers):
        raise SyftError(
            "decrypt() found a number outside of the public bound of this tensor: a ciphertext was damaged or forged, "
            "or a worker computed on it incorrectly. Encrypt and compute again."
        )
    return decode(numbers, tuple(x.shape), x.scale, x.whole)


# --- sums -----------------------------------------------------------------------------------------------------------


def check_keys(x: Ciphertexts, y: Ciphertexts) -> None:
    """Raise unless two tensors have the same key."""
    if x.key != y.key:
        raise SyftError(
            f"These tensors are encrypted under different public keys, a {x.key} and a {y.key}. "
            "Encrypt both with the same key."
        )


def rescaled(x: Ciphertexts, scale: int) -> Ciphertexts:
    """Return the same numbers with more fractional bits."""
    if scale == x.scale:
        return x
    factor = 1 << (scale - x.scale)
    bound = check_bound(x.key, x.bound * factor)
    square, power = x.key.square, arithmetic().power
    values = in_threads("rescaling", lambda value: power(value, factor, square), x.flat())
    return made(x, objects(values, x.values.shape), scale, bound, x.whole)


def add(x: Ciphertexts, y: Ciphertexts) -> Ciphertexts:
    """Add elementwise, with broadcasting."""
    check_keys(x, y)
    shape = common_shape(x.shape, y.shape)
    scale = max(x.scale, y.scale)
    check_bound(x.key, (x.bound << (scale - x.scale)) + (y.bound << (scale - y.scale)))
    x, y = rescaled(x, scale), rescaled(y, scale)
    square = x.key.square
    pairs = zip(spread(x.values, shape), spread(y.values, shape), strict=True)
    values = objects([a * b % square for a, b in pairs], shape)
    return made(x, values, scale, x.bound + y.bound, x.whole and y.whole)


def as_addend(x: Ciphertexts, plain: Any, call: str, sign: int = 1) -> Ciphertexts:
    """Return a plain operand, or its negative, as ciphertexts to add to others, with at least their scale."""
    encoded = encode(x.key, plain, x.key.fraction, call)
    shift = max(0, x.scale - encoded.scale)
    values = objects([sign * number << shift for number in encoded.values.reshape(-1).tolist()], encoded.values.shape)
    return trivial(x.key, Integers(values, encoded.scale + shift, encoded.bound << shift, encoded.whole))


def neg(x: Ciphertexts) -> Ciphertexts:
    """Change the sign."""
    square, power = x.key.square, arithmetic().power
    try:
        values = [power(value, -1, square) for value in x.flat()]
    except (ZeroDivisionError, ValueError):
        _refuse_forged()
    return made(x, objects(values, x.values.shape), x.scale, x.bound, x.whole)


def _refuse_forged() -> NoReturn:
    raise SyftError("A ciphertext has no inverse, so it was damaged or forged. Encrypt and compute again.")


def common_shape(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that two operands are broadcast to; torch's own function imports much at its first call."""
    try:
        return np.broadcast_shapes(tuple(first), tuple(second))
    except ValueError:
        raise SyftError(f"Shapes {tuple(first)} and {tuple(second)} can't be broadcast together.") from None


def spread(values: Array, shape: tuple[int, ...]) -> list[Any]:
    """Return the elements of an array that is broadcast to a shape, in order."""
    return (values if values.shape == shape else np.broadcast_to(values, shape)).reshape(-1).tolist()


def total(x: Ciphertexts, dims: Sequence[int], keepdim: bool) -> Ciphertexts:
    """Add along dimensions."""
    rest = [dim for dim in range(x.values.ndim) if dim not in dims]
    kept = tuple(x.values.shape[dim] for dim in rest)
    count = math.prod(x.values.shape[dim] for dim in dims)
    rows = x.values.transpose(*rest, *dims).reshape(math.prod(kept), count)
    one = arithmetic().number(1)
    times = _times(x.key)
    values = objects([functools.reduce(times, row, one) for row in rows.tolist()], kept)
    if keepdim:
        values = values.reshape([1 if dim in dims else size for dim, size in enumerate(x.values.shape)])
    return made(x, values, x.scale, x.bound * max(1, count), x.whole)


def cumulative(x: Ciphertexts, dim: int) -> Ciphertexts:
    """Add the elements up to each one, along a dimension."""
    if not x.values.ndim:
        return x
    moved = np.moveaxis(x.values, dim, -1)
    count = moved.shape[-1]
    times = _times(x.key)
    lines = moved.reshape(-1, count).tolist() if count else []
    sums = [value for line in lines for value in itertools.accumulate(line, times)]
    values = np.moveaxis(objects(sums, moved.shape), -1, dim)
    return made(x, values, x.scale, x.bound * max(1, count), x.whole)


def _times(key: Modulus) -> Callable[[Any, Any], Any]:
    square = key.square
    return lambda a, b: a * b % square


# --- products with plain numbers ------------------------------------------------------------------------------------


def mul(x: Ciphertexts, plain: Integers) -> Ciphertexts:
    """Multiply elementwise by plain numbers, with broadcasting."""
    shape = common_shape(x.shape, plain.values.shape)
    bound = check_bound(x.key, x.bound * plain.bound)
    square, power = x.key.square, arithmetic().power
    pairs = list(zip(spread(x.values, shape), spread(plain.values, shape), strict=True))
    try:
        values = in_threads("multiplying", lambda pair: power(pair[0], pair[1], square), pairs)
    except (ZeroDivisionError, ValueError):
        _refuse_forged()
    return made(x, objects(values, shape), x.scale + plain.scale, bound, x.whole and plain.whole)


def matmul(x: Ciphertexts, plain: Integers) -> Ciphertexts:
    """Return x @ plain for matrices and batches of them, with broadcasting."""
    rows, inner = x.values.shape[-2:]
    if plain.values.shape[-2] != inner:
        raise SyftError(
            f"matmul() needs matching inner dimensions, got shapes {tuple(x.shape)} and {plain.values.shape}."
        )
    columns = plain.values.shape[-1]
    batch = common_shape(x.shape[:-2], plain.values.shape[:-2])
    bound = check_bound(x.key, x.bound * plain.bound * max(1, inner))
    count = math.prod(batch)
    left = np.broadcast_to(x.values, (*batch, rows, inner)).reshape(count, rows, inner)
    right = np.broadcast_to(plain.values, (*batch, inner, columns)).reshape(count, inner, columns)
    # With fewer rows than cores, the columns are divided.
    step = max(1, columns // -(-core_count() // max(1, count * rows)))
    jobs = [
        (row, b[start : start + step])
        for a, b in zip(left.tolist(), right.transpose(0, 2, 1).tolist(), strict=True)
        for row in a
        for start in range(0, columns, step)
    ]
    try:
        parts = in_threads("multiplying", lambda job: weighted_sums(x.key, *job), jobs)
    except (ZeroDivisionError, ValueError):
        _refuse_forged()
    values = objects([value for part in parts for value in part], (*batch, rows, columns))
    return made(x, values, x.scale + plain.scale, bound, x.whole and plain.whole)


# --- movement of elements -------------------------------------------------------------------------------------------


def joined(parts: Sequence[Ciphertexts]) -> Ciphertexts:
    """Return all elements of several tensors as one line, with a common scale and bound."""
    for part in parts[1:]:
        check_keys(parts[0], part)
    scale = max(part.scale for part in parts)
    same = [rescaled(part, scale) for part in parts]
    values = objects([value for part in same for value in part.flat()], (sum(part.values.size for part in same),))
    whole = all(part.whole for part in parts)
    return made(same[0], values, scale, max(part.bound for part in same), whole)


def taken(x: Ciphertexts, positions: torch.Tensor) -> Ciphertexts:
    """Return the elements at positions counted from 1, in their shape; at 0 is a zero."""
    if positions.numel() > MAX_ELEMENTS:
        raise SyftError(f"A tensor of ciphertexts has at most {MAX_ELEMENTS} elements, got {positions.numel()}.")
    line = [arithmetic().number(1), *x.flat()]
    values = objects([line[position] for position in positions.reshape(-1).tolist()], tuple(positions.shape))
    return made(x, values, x.scale, x.bound, x.whole)


def as_fractions(x: Ciphertexts) -> Ciphertexts:
    """Return the same numbers, decrypted to the default dtype of torch."""
    return dataclasses.replace(x, whole=False)


def reshaped(x: Ciphertexts, shape: tuple[int, ...]) -> Ciphertexts:
    """Return the same elements in another shape."""
    return dataclasses.replace(x, values=x.values.reshape(shape))


def transposed(x: Ciphertexts) -> Ciphertexts:
    """Exchange the last two dimensions of matrices; vectors stay as they are."""
    values = np.swapaxes(x.values, -1, -2) if x.values.ndim > 1 else x.values
    return dataclasses.replace(x, values=values)
