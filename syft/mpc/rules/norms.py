"""Rules for standard deviations and norms of vectors."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from syft.mpc.protocols.exponential import MAX_SCALE
from syft.mpc.rules.approximations import encoded, of_positive, on_plain
from syft.mpc.rules.arithmetic import sub
from syft.mpc.rules.comparison import absolute, ne
from syft.mpc.rules.operands import FixedPointFormat, aten, content, rule
from syft.mpc.rules.powers import pow_scalar
from syft.mpc.rules.public_scaling import times
from syft.mpc.rules.reduction import amax, amin, check_dtype, dims_of, mean, total
from syft.mpc.rules.types import Dims, Link, Value
from syft.mpc.values import ring_ops


def deviation(
    x: Link, dims: list[int], keepdim: bool, correction: float = 0, epsilon: float = 0.0, name: str = "sqrt"
) -> Link:
    """Return the square root (or, with name "rsqrt", its inverse) of the variance along dimensions plus epsilon.

    Squares are added up before they are rescaled, so that small squares, and epsilon, are not rounded to zero.
    """
    fmt = encoded(x, "std")
    count = 1
    for dim in dims:
        count *= x.shape[dim]
    if count - correction <= 0:
        raise ValueError("std() needs more elements than the correction.")
    distance = content(sub(x, mean(x, dims, True)))
    return fmt.link(_root_of_squares(distance, dims, keepdim, fmt, count - correction, epsilon, name))


def _root_of_squares(
    value: Value, dims: list[int], keepdim: bool, fmt: FixedPointFormat, count: float, epsilon: float, name: str
) -> Value:
    scale = fmt.scale**2
    if not ring_ops.is_shared(value):

        def plain(v: torch.Tensor) -> torch.Tensor:
            found = (v * v).sum(dims, keepdim) / count + epsilon if dims else v * v / count + epsilon
            return of_positive(torch.rsqrt if name == "rsqrt" else torch.sqrt)(found)

        return on_plain(plain, value, fmt)
    divisor = 1
    while scale // divisor > MAX_SCALE:
        divisor *= fmt.base
    summed = ring_ops.total(ring_ops.run("square", value, divisor=divisor), dims, keepdim)
    scale //= divisor
    integer_count = max(int(count), 1)
    part = count / integer_count
    summed = ring_ops.truncate(summed, integer_count) if integer_count > 1 else summed
    if part != 1:
        summed = times(summed, 1 / part, fmt)
    if epsilon:
        summed = ring_ops.add(summed, max(round(epsilon * scale), 1))
    return ring_ops.run("root", summed, kind=name, scale=scale, out=fmt.scale)


@rule(aten.std.correction, in_place=False)
def std(x: Link, dim: Dims = None, correction: float | None = 1, keepdim: bool = False) -> Link:
    """Standard deviation along dimensions."""
    return deviation(x, dims_of(x, dim), keepdim, 1 if correction is None else correction)


@rule(aten.std_mean.correction, in_place=False)
def std_and_mean(x: Link, dim: Dims = None, correction: float | None = 1, keepdim: bool = False) -> tuple[Link, Link]:
    """Standard deviation and mean along dimensions."""
    return std(x, dim, correction, keepdim), mean(x, dim, keepdim)


@rule(aten.linalg_vector_norm.default, in_place=False)
def vector_norm(
    x: Link, order: float = 2, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Link:
    """Norm of vectors along dimensions, of any order."""
    check_dtype(x, dtype)
    fmt, dims, order = encoded(x, "norm"), dims_of(x, dim), float(order)
    if order == 2:
        return fmt.link(_root_of_squares(content(x), dims, keepdim, fmt, 1, 0.0, "sqrt"))
    if order == 0:
        return total(ne(x, 0), dims, keepdim)
    sizes = absolute(x)
    if order in _SUMMARIES:
        return _SUMMARIES[order](sizes, dims, keepdim)
    return pow_scalar(total(pow_scalar(sizes, order), dims, keepdim), 1 / order)


_SUMMARIES: dict[float, Callable[..., Link]] = {1.0: total, math.inf: amax, -math.inf: amin}
