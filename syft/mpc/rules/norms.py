"""Rules for standard deviations and norms of vectors."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from syft.mpc.rules.approximations import encoded, of_positive, on_plain
from syft.mpc.rules.arithmetic import sub
from syft.mpc.rules.comparison import absolute, ne
from syft.mpc.rules.normalization import squares_scale
from syft.mpc.rules.operands import FixedPointFormat, aten, content, rule
from syft.mpc.rules.powers import pow_scalar
from syft.mpc.rules.public_scaling import times
from syft.mpc.rules.reduction import amax, amin, check_dtype, count_of, dims_of, mean, total
from syft.mpc.rules.types import Dims, Link, Value
from syft.mpc.values import ring_ops


def _root_of_squares(value: Value, dims: list[int], keepdim: bool, fmt: FixedPointFormat, count: float = 1) -> Value:
    """Return sqrt(sum of squares / count) along dimensions.

    Squares are added up before they are rescaled, so that small squares are not rounded to zero.
    """
    if not ring_ops.is_shared(value):

        def plain(v: torch.Tensor) -> torch.Tensor:
            return of_positive(torch.sqrt)(((v * v).sum(dims, keepdim) if dims else v * v) / count)

        return on_plain(plain, value, fmt)
    scale, divisor = squares_scale(fmt)
    summed = ring_ops.total(ring_ops.run("square", value, divisor=divisor), dims, keepdim)
    integer_count = max(int(count), 1)
    part = count / integer_count
    summed = ring_ops.truncate(summed, integer_count) if integer_count > 1 else summed
    if part != 1:
        summed = times(summed, 1 / part, fmt)
    return ring_ops.run("root", summed, kind="sqrt", scale=scale, out=fmt.scale)


@rule(aten.std.correction, in_place=False)
def std(x: Link, dim: Dims = None, correction: float | None = 1, keepdim: bool = False) -> Link:
    """Standard deviation along dimensions."""
    fmt, dims = encoded(x, "std"), dims_of(x, dim)
    count = count_of(x, dims) - (1 if correction is None else correction)
    if count <= 0:
        raise ValueError("std() needs more elements than the correction.")
    distance = content(sub(x, mean(x, dims, True)))
    return fmt.link(_root_of_squares(distance, dims, keepdim, fmt, count))


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
        return fmt.link(_root_of_squares(content(x), dims, keepdim, fmt))
    if order == 0:
        return total(ne(x, 0), dims, keepdim)
    sizes = absolute(x)
    if order in _SUMMARIES:
        return _SUMMARIES[order](sizes, dims, keepdim)
    return pow_scalar(total(pow_scalar(sizes, order), dims, keepdim), 1 / order)


_SUMMARIES: dict[float, Callable[..., Link]] = {1.0: total, math.inf: amax, -math.inf: amin}
