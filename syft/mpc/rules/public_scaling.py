"""Public factors and divisors: as whole numbers, with no more digits than they need, and as many as they need.

A public number f multiplies whole numbers x as f0 / scale, f0 whole. Where f has few digits (0.5 is 5/10) this is
exact. Elsewhere more digits follow, each `step` times finer, and x f is worked out as by hand, the last digit first:
((x f2 / step + x f1) / step + x f0) / scale. So no product is larger than x times max(step, f0), whatever the number of
digits, and factors of very different size may stand in one tensor.

A single number that is a fraction of small numbers, as learning rates and the like are (0.001, 1/3), is that fraction:
one division, and no digits at all. One a little below 1 is 1 less such a fraction, which takes no room.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from fractions import Fraction

import torch

from syft.exceptions import SyftError
from syft.mpc.rules.cached_comparisons import as_bit
from syft.mpc.rules.gradients import coarser
from syft.mpc.rules.operands import (
    FixedPointFormat,
    Link,
    Number,
    Operand,
    Value,
    content,
    form_of,
    in_form,
    is_link,
    not_whole,
    whole,
)
from syft.mpc.values import ring_ops
from syft.mpc.values.encoding import encode_number, encode_plain
from syft.mpc.values.ring_ops import Term
from syft.tensors.precision import FixedPrecisionTensor

# How large one digit may be: at least about three decimals, at most 20 bits, and the scale of the form in between.
MIN_STEP, MAX_STEP = 1000, 1 << 20
# Forms that are finer than 26 bits leave less room for digits: a step and the scale come to no more than this.
MAX_GROWTH = 1 << 46
# Up to here there is room for a factor times a whole step.
MAX_ROOMY = 1 << 40
# How many bits behind the point a product of two links may have before it is rescaled.
PRODUCT_BITS = 52
# How large a fraction's denominator may be, and which part of a number it may miss.
MAX_DENOMINATOR, FRACTION_TOLERANCE = 1 << 30, 2.0**-36
# Beyond this no digit of a factor changes a result that has room.
FINEST = 1 << 62
# Which part of a factor may be missing; and of the factor that stands for a divisor.
TOLERANCE, DIVISOR_TOLERANCE = 2.0**-15, 2.0**-20
# Divisors are smaller than this.
MAX_DIVISOR = 1 << 61
# How many elements of a tensor are looked at first.
SAMPLE = 64
# For more of them a common multiple is not even looked for.
MAX_DIVISORS = 64


@dataclasses.dataclass(slots=True)
class Digits:
    """A public factor: `first` / scale, and finer digits, each counting a step-th of the one before."""

    first: torch.Tensor | int
    scale: int
    step: int = 1
    finer: tuple[torch.Tensor, ...] = ()


def step_of(form: FixedPointFormat) -> int:
    """Return how large a digit may be: a power of the form's base."""
    base, step = form.base, form.base
    while step * base <= min(max(form.scale, MIN_STEP), MAX_STEP, max(MAX_GROWTH // form.scale, MIN_STEP)):
        step *= base
    return step


@functools.lru_cache(maxsize=1024)
def fraction_of(number: float, most: int) -> tuple[int, int] | None:
    """Return a number as a numerator, of at most a given size, and a denominator, if it is such a fraction."""
    near = Fraction(number).limit_denominator(MAX_DENOMINATOR)
    missing = abs(near - Fraction(number))
    if abs(near.numerator) > most or missing > abs(Fraction(number)) * Fraction(FRACTION_TOLERANCE):
        return None
    return near.numerator, near.denominator


def digits(
    number: torch.Tensor | Number, form: FixedPointFormat, tolerance: float = TOLERANCE, each: bool = True
) -> Digits:
    """Return a public number or tensor as a factor.

    Args:
        number: the factor.
        form: the form of what it multiplies.
        tolerance: which part of each element may be missing, unless the form is finer than that.
        each: whether elements count each by itself; if not (in matrices), what is missing is compared with the largest
            one, and may be as much as the form itself would leave out.
    """
    if isinstance(number, int) or (isinstance(number, float) and number.is_integer() and abs(number) < FINEST):
        return Digits(encode_number(int(number), 1, form.field), 1)
    if isinstance(number, float) and form.model is not None and math.isfinite(number):
        fraction = fraction_of(number, step_of(form))
        if fraction is not None:
            return Digits(*fraction)
    tensor = number if isinstance(number, torch.Tensor) else torch.tensor(number, dtype=torch.float64)
    if not tensor.is_floating_point():
        return Digits(encode_plain(tensor, 1, form.field), 1)
    made = exact(tensor, form)
    if made is None:
        if form.model is None:
            raise not_whole()
        finest = 2 / form.scale
        made = _approximate(tensor, form, min(tolerance, finest) if each else finest, each)
    if not isinstance(number, torch.Tensor) and not made.finer:
        made.first = int(made.first)
    return made


def exact(tensor: torch.Tensor, form: FixedPointFormat) -> Digits | None:
    """Return a tensor as whole numbers over a small power of the base, if it is nothing else."""
    most = _most(tensor)
    scale, step = 1, step_of(form)
    sample = tensor.reshape(-1)[:SAMPLE]
    while scale == 1 or (form.model is not None and scale * min(1.0, most) <= step and scale < FINEST // form.base):
        if _has_digits(sample, scale) and _has_digits(tensor, scale):
            return Digits(encode_plain((tensor.double() * scale).round(), 1, form.field), scale)
        scale *= form.base
    return None


def _has_digits(tensor: torch.Tensor, scale: int) -> bool:
    """Say whether all elements are what multiples of 1/scale look like in their dtype."""
    scaled = (tensor.double() * scale).round()
    return torch.equal((scaled / scale).to(tensor.dtype), tensor)


def _most(tensor: torch.Tensor) -> float:
    most = float(tensor.detach().abs().max()) if tensor.numel() else 0.0
    if not math.isfinite(most):
        raise SyftError("NaN and infinity have no form in fixed precision; take them out first (torch.nan_to_num).")
    return most


def _approximate(tensor: torch.Tensor, form: FixedPointFormat, tolerance: float, each: bool) -> Digits:
    """Return a tensor as digits, so many that what is missing is small enough."""
    exactly = tensor.detach().double()
    most, step = _most(tensor), step_of(form)
    # Where there is little room, a large factor begins with a smaller digit.
    scale = step if form.scale * step <= MAX_ROOMY else 1
    while scale * form.base * most <= step and scale * form.base < FINEST:
        scale *= form.base
    first = encode_plain(exactly, scale, form.field)
    rest = exactly * scale - first.double()  # in units of the last digit
    wanted = exactly.abs() if each else torch.full_like(exactly, most)
    finer, reached = [], scale
    while bool((rest.abs() > wanted * (tolerance * reached)).any()) and reached < FINEST:
        digit = (rest * step).round()
        rest = rest * step - digit
        finer.append(digit.to(torch.int64))
        reached *= step
    return Digits(first, scale, step, tuple(finer))


def multiply(operation: str, x: Value, factor: Digits, swapped: bool = False, **options: object) -> Value:
    """Multiply whole numbers by a public factor, which may stand on the left."""

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


def divide(x: Term, divisor: torch.Tensor | float, form: FixedPointFormat) -> Value:
    """Divide whole numbers by a public number or tensor: exactly, up to rounding, where it has few digits."""
    tensor = divisor if isinstance(divisor, torch.Tensor) else torch.tensor(divisor, dtype=torch.float64)
    if not bool((tensor != 0).all()):
        raise ZeroDivisionError("an encrypted tensor can't be divided by zero")
    x = ring_ops.as_tensor(x)
    if not tensor.is_floating_point():
        tensor = tensor.double()
    fraction = exact(tensor, form)
    if fraction is not None:
        made = _by_fraction(x, fraction, step_of(form))
        if made is not None:
            return made
    return multiply("mul", x, digits(tensor.double().reciprocal(), form, DIVISOR_TOLERANCE))


def _by_fraction(x: Value, fraction: Digits, step: int) -> Value | None:
    """Divide by n / scale: multiply by what makes all divisors the same, if there is room, and divide by that."""
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


def product(operation: str, x: Operand, y: Operand, form: FixedPointFormat | None = None, **options: object) -> Value:
    """Multiply two operands; returns whole numbers of the finest form among them, or of the one given."""
    form = form or form_of(x, y)
    if operation == "mul":  # a bit multiplies as the whole number it is, so nothing has to be divided
        x, y = as_bit(x), as_bit(y)
    if not is_link(x):
        return _by_public(operation, y, x, form, True, options)
    if not is_link(y):
        return _by_public(operation, x, y, form, False, options)
    x, y = with_room(x, y)
    divisor = _scale(x) * _scale(y) // form.scale
    made = ring_ops.product(operation, content(x), content(y), max(divisor, 1), **options)
    return made if divisor else ring_ops.scale(made, form.scale // (_scale(x) * _scale(y)))


def _by_public(
    operation: str, x: Operand, factor: torch.Tensor | Number, form: FixedPointFormat, swapped: bool,
    options: dict[str, object],
) -> Value:  # fmt: skip
    """Multiply by a public operand, which is on the left if swapped."""
    value = ring_ops.as_tensor(whole(x, form))
    if isinstance(factor, int | float):
        return times(value, factor, form)
    return multiply(operation, value, digits(factor, form, each=operation == "mul"), swapped, **options)


def with_room(x: Link, y: Link) -> tuple[Link, Link]:
    """Return two links with so few digits that their product has ten bits before the point."""
    if _scale(x) * _scale(y) <= 1 << PRODUCT_BITS:
        return x, y
    same = x is y
    x = _rounded(x, max((1 << PRODUCT_BITS) // _scale(y), 1 << PRODUCT_BITS // 2))
    return x, x if same else _rounded(y, (1 << PRODUCT_BITS) // _scale(x))


def _rounded(link: Link, most: int) -> Link:
    if not isinstance(link, FixedPrecisionTensor) or link.scale <= most:
        return link
    form = coarser(link, most.bit_length() - 1)
    return form.link(in_form(link, form))


def _scale(link: Link) -> int:
    return link.scale if isinstance(link, FixedPrecisionTensor) else 1


def times(value: Value, number: torch.Tensor | Number, form: FixedPointFormat) -> Value:
    """Multiply whole numbers of a form by a public number or tensor."""
    if isinstance(number, float) and 0.5 < number < 1 and form.model is not None:
        rest = fraction_of(1 - number, step_of(form))
        if rest is not None:
            return ring_ops.sub(value, multiply("mul", value, Digits(*rest)))
    return multiply("mul", value, digits(number, form))
