"""Public factors and divisors as integers, with as many digits as they need.

A public number f multiplies integers x as f0 / scale, with an integer f0. If f has few digits (0.5 is 5/10) this is
exact. Otherwise finer digits follow, each `step` times finer, and x f is computed as in long multiplication, the last
digit first: ((x f2 / step + x f1) / step + x f0) / scale. So no product is larger than x max(step, f0), whatever the
number of digits, and one tensor may contain factors of very different magnitude.

A single number that is a fraction of small integers, such as most learning rates (0.001, 1/3), is used as that
fraction: one division, and no digits. A number a little below 1 is 1 minus such a fraction.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from fractions import Fraction

import torch

from syft.mpc.rules.cached_comparisons import as_bit
from syft.mpc.rules.gradients import coarser
from syft.mpc.rules.operands import (
    FixedPointFormat,
    content,
    format_of,
    in_format,
    is_link,
    not_whole_error,
    to_integers,
)
from syft.mpc.rules.types import Link, Number, Operand, Term, Value
from syft.mpc.values import ring_ops
from syft.mpc.values.encoding import encode_number, encode_plain, not_finite_error
from syft.tensors.precision import FixedPrecisionTensor

# The size of one digit: at least about three decimals, at most 20 bits, and the scale of the format in between.
MIN_STEP, MAX_STEP = 1000, 1 << 20
# The maximum of the step times the scale: formats finer than 26 bits have smaller steps.
MAX_GROWTH = 1 << 46
# Up to this scale times step, a factor may start with a full digit.
MAX_ROOMY = 1 << 40
# The maximum of bits behind the point in a product of two links before it is rescaled.
PRODUCT_BITS = 52
# The maximum denominator of a fraction, and its maximum relative error.
MAX_DENOMINATOR, FRACTION_TOLERANCE = 1 << 30, 2.0**-36
# Digits beyond this do not change a result that fits.
FINEST = 1 << 62
# The maximum relative errors of a factor, and of the reciprocal of a divisor.
TOLERANCE, DIVISOR_TOLERANCE = 2.0**-15, 2.0**-20
# Divisors are smaller than this.
MAX_DIVISOR = 1 << 61
# The number of elements of a tensor that are tested first.
SAMPLE = 64
# The maximum of different divisors for which a common multiple is computed.
MAX_DIVISORS = 64


@dataclasses.dataclass(slots=True)
class Digits:
    """A public factor: `first` / scale, and finer digits, each in units of 1/step of the previous one."""

    first: torch.Tensor | int
    scale: int
    step: int = 1
    finer: tuple[torch.Tensor, ...] = ()


def step_of(fmt: FixedPointFormat) -> int:
    """Return the size of a digit: a power of the base of the format."""
    base, step = fmt.base, fmt.base
    while step * base <= min(max(fmt.scale, MIN_STEP), MAX_STEP, max(MAX_GROWTH // fmt.scale, MIN_STEP)):
        step *= base
    return step


@functools.lru_cache(maxsize=1024)
def fraction_of(number: float, max_numerator: int) -> tuple[int, int] | None:
    """Return a number as numerator, up to a maximum, and denominator; None if it is no such fraction."""
    near = Fraction(number).limit_denominator(MAX_DENOMINATOR)
    missing = abs(near - Fraction(number))
    if abs(near.numerator) > max_numerator or missing > abs(Fraction(number)) * Fraction(FRACTION_TOLERANCE):
        return None
    return near.numerator, near.denominator


def digits(
    number: torch.Tensor | Number, fmt: FixedPointFormat, tolerance: float = TOLERANCE, each: bool = True
) -> Digits:
    """Return a public number or tensor as a factor.

    Args:
        number: the factor.
        fmt: the format of the operand that it multiplies.
        tolerance: the maximum relative error of each element, unless the format is finer.
        each: whether the error is relative to each element; if not (in matrices), it is relative to the largest one,
            and may be as large as the rounding of the format.
    """
    if isinstance(number, int) or (isinstance(number, float) and number.is_integer() and abs(number) < FINEST):
        return Digits(encode_number(int(number), 1, fmt.field), 1)
    if isinstance(number, float) and fmt.model is not None and math.isfinite(number):
        fraction = fraction_of(number, step_of(fmt))
        if fraction is not None:
            return Digits(*fraction)
    tensor = number if isinstance(number, torch.Tensor) else torch.tensor(number, dtype=torch.float64)
    if not tensor.is_floating_point():
        return Digits(encode_plain(tensor, 1, fmt.field), 1)
    made = exact(tensor, fmt)
    if made is None:
        if fmt.model is None:
            raise not_whole_error()
        finest = 2 / fmt.scale
        made = _approximate(tensor, fmt, min(tolerance, finest) if each else finest, each)
    if not isinstance(number, torch.Tensor) and not made.finer:
        made.first = int(made.first)
    return made


def exact(tensor: torch.Tensor, fmt: FixedPointFormat) -> Digits | None:
    """Return a tensor as integers over a small power of the base; None if that is not exact."""
    largest = _max_abs(tensor)
    scale, step = 1, step_of(fmt)
    sample = tensor.reshape(-1)[:SAMPLE]
    while scale == 1 or (fmt.model is not None and scale * min(1.0, largest) <= step and scale < FINEST // fmt.base):
        if _has_digits(sample, scale) and _has_digits(tensor, scale):
            return Digits(encode_plain((tensor.double() * scale).round(), 1, fmt.field), scale)
        scale *= fmt.base
    return None


def _has_digits(tensor: torch.Tensor, scale: int) -> bool:
    """Return whether all elements are multiples of 1/scale, rounded to their dtype."""
    scaled = (tensor.double() * scale).round()
    return torch.equal((scaled / scale).to(tensor.dtype), tensor)


def _max_abs(tensor: torch.Tensor) -> float:
    largest = float(tensor.detach().abs().max()) if tensor.numel() else 0.0
    if not math.isfinite(largest):
        raise not_finite_error()
    return largest


def _approximate(tensor: torch.Tensor, fmt: FixedPointFormat, tolerance: float, each: bool) -> Digits:
    """Return a tensor as enough digits for the error to be within the tolerance."""
    exactly = tensor.detach().double()
    largest, step = _max_abs(tensor), step_of(fmt)
    # If the range is tight, a large factor starts with a smaller digit.
    scale = step if fmt.scale * step <= MAX_ROOMY else 1
    while scale * fmt.base * largest <= step and scale * fmt.base < FINEST:
        scale *= fmt.base
    first = encode_plain(exactly, scale, fmt.field)
    rest = exactly * scale - first.double()  # in units of the last digit
    wanted = exactly.abs() if each else torch.full_like(exactly, largest)
    finer, reached = [], scale
    while bool((rest.abs() > wanted * (tolerance * reached)).any()) and reached < FINEST:
        digit = (rest * step).round()
        rest = rest * step - digit
        finer.append(digit.to(torch.int64))
        reached *= step
    return Digits(first, scale, step, tuple(finer))


def multiply(operation: str, x: Value, factor: Digits, swapped: bool = False, **options: object) -> Value:
    """Multiply integers by a public factor, which is on the left if swapped."""

    def times(digit: torch.Tensor | int, divisor: int = 1) -> Value:
        left, right = (digit, x) if swapped else (x, digit)
        return ring_ops.product(operation, left, right, divisor, **options)

    carried: Value | None = None
    for digit in reversed(factor.finer):
        carried = _carry(times, digit, carried, factor.step)
    return _carry(times, factor.first, carried, factor.scale)


def _carry(times: Callable[..., Value], digit: torch.Tensor | int, carried: Value | None, divisor: int) -> Value:
    if carried is None:
        return times(digit, divisor)
    return ring_ops.truncate(ring_ops.add(times(digit), carried), divisor)


# --- divisors -----------------------------------------------------------------------------------------------


def divide(x: Term, divisor: torch.Tensor | float, fmt: FixedPointFormat) -> Value:
    """Divide integers by a public number or tensor; exact up to rounding if it has few digits."""
    tensor = divisor if isinstance(divisor, torch.Tensor) else torch.tensor(divisor, dtype=torch.float64)
    if not bool((tensor != 0).all()):
        raise ZeroDivisionError("an encrypted tensor can't be divided by zero")
    x = ring_ops.as_tensor(x)
    if not tensor.is_floating_point():
        tensor = tensor.double()
    fraction = exact(tensor, fmt)
    if fraction is not None:
        made = _by_fraction(x, fraction, step_of(fmt))
        if made is not None:
            return made
    return multiply("mul", x, digits(tensor.double().reciprocal(), fmt, DIVISOR_TOLERANCE))


def _by_fraction(x: Value, fraction: Digits, step: int) -> Value | None:
    """Divide by n / scale through a common multiple of all divisors; None if that is too large."""
    divisors = torch.as_tensor(fraction.first)
    found = {int(number) for number in divisors.unique()}  # type: ignore[no-untyped-call]
    common = math.lcm(*found) if len(found) <= MAX_DIVISORS else MAX_DIVISOR
    if common * fraction.scale >= MAX_DIVISOR:
        return None
    factors = (common * fraction.scale) // divisors
    spared = math.gcd(common, *(common * fraction.scale // number for number in found))
    factors, common = factors // spared, common // spared
    if factors.numel() and min(int(factors.abs().max()), common) > step:
        return None
    if factors.dim():
        return ring_ops.mul(x, factors, common)
    return ring_ops.truncate(ring_ops.scale(x, int(factors)), common)


# --- products -----------------------------------------------------------------------------------------------


def product(operation: str, x: Operand, y: Operand, fmt: FixedPointFormat | None = None, **options: object) -> Value:
    """Multiply two operands; returns integers of the given format, or else of the finest one among them."""
    fmt = fmt or format_of(x, y)
    if operation == "mul":  # a bit multiplies as an integer, so no rescaling is needed
        x, y = as_bit(x), as_bit(y)
    if not is_link(x):
        return _by_public(operation, y, x, fmt, True, options)
    if not is_link(y):
        return _by_public(operation, x, y, fmt, False, options)
    x, y = with_room(x, y)
    divisor = _scale(x) * _scale(y) // fmt.scale
    made = ring_ops.product(operation, content(x), content(y), max(divisor, 1), **options)
    return made if divisor else ring_ops.scale(made, fmt.scale // (_scale(x) * _scale(y)))


def _by_public(
    operation: str, x: Operand, factor: torch.Tensor | Number, fmt: FixedPointFormat, swapped: bool,
    options: dict[str, object],
) -> Value:  # fmt: skip
    """Multiply by a public operand, which is on the left if swapped."""
    value = ring_ops.as_tensor(to_integers(x, fmt))
    if isinstance(factor, int | float):
        return times(value, factor, fmt)
    return multiply(operation, value, digits(factor, fmt, each=operation == "mul"), swapped, **options)


def with_room(x: Link, y: Link) -> tuple[Link, Link]:
    """Return two links with few enough digits for their product to have ten bits before the point."""
    if _scale(x) * _scale(y) <= 1 << PRODUCT_BITS:
        return x, y
    same = x is y
    x = _rounded(x, max((1 << PRODUCT_BITS) // _scale(y), 1 << PRODUCT_BITS // 2))
    return x, x if same else _rounded(y, (1 << PRODUCT_BITS) // _scale(x))


def _rounded(link: Link, max_scale: int) -> Link:
    if not isinstance(link, FixedPrecisionTensor) or link.scale <= max_scale:
        return link
    fmt = coarser(link, max_scale.bit_length() - 1)
    return fmt.link(in_format(link, fmt))


def _scale(link: Link) -> int:
    return link.scale if isinstance(link, FixedPrecisionTensor) else 1


def times(value: Value, number: torch.Tensor | Number, fmt: FixedPointFormat) -> Value:
    """Multiply integers of a format by a public number or tensor."""
    if isinstance(number, float) and 0.5 < number < 1 and fmt.model is not None:
        rest = fraction_of(1 - number, step_of(fmt))
        if rest is not None:
            return ring_ops.sub(value, multiply("mul", value, Digits(*rest)))
    return multiply("mul", value, digits(number, fmt))
