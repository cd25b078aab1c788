"""Rules for sums, means, products and extremes along dimensions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from syft.exceptions import UnsupportedOperationError
from syft.mpc.rules.arithmetic import mul, sub
from syft.mpc.rules.operands import aten, content, format_of, rule
from syft.mpc.rules.public_scaling import times
from syft.mpc.rules.types import AnyTensor, Dims, Link, Value
from syft.mpc.values import ring_ops


def dims_of(x: AnyTensor, dim: Dims) -> list[int]:
    """Return dimensions as non-negative numbers; all of them for None or an empty list."""
    count = len(x.shape)
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return list(range(count))
    named = [dim] if isinstance(dim, int) else list(dim)
    for one in named:
        if not -max(count, 1) <= one < max(count, 1):
            raise IndexError(f"Dimension out of range (expected to be in [{-count}, {count - 1}], but got {one})")
    if len({one % max(count, 1) for one in named}) != len(named):
        raise RuntimeError("A dimension appears multiple times in the list of dims.")
    return sorted(one % count for one in named) if count else []


def check_dtype(x: AnyTensor, dtype: torch.dtype | None) -> None:
    """Refuse a dtype of another kind; all float dtypes are accepted for encoded numbers."""
    if dtype is not None and not (dtype.is_floating_point if x.dtype.is_floating_point else dtype is torch.int64):
        raise UnsupportedOperationError(f"A reduction to {dtype}", type(x).__name__, "Leave out dtype.")


def count_of(x: AnyTensor, dims: list[int]) -> int:
    """Return the number of elements along dimensions."""
    return math.prod(x.shape[dim] for dim in dims)


@rule(aten.sum.default, aten.sum.dim_IntList, in_place=False)
def total(x: Link, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Link:
    """Sum along dimensions."""
    check_dtype(x, dtype)
    return format_of(x).link(ring_ops.total(content(x), dims_of(x, dim), keepdim))


@rule(aten.cumsum.default)
def cumsum(x: Link, dim: int, dtype: torch.dtype | None = None) -> Link:
    """Running sum."""
    check_dtype(x, dtype)
    return format_of(x).link(ring_ops.local(aten.cumsum.default, content(x), dim))


@rule(aten.mean.default, aten.mean.dim, in_place=False)
def mean(x: Link, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Link:
    """Mean along dimensions."""
    check_dtype(x, dtype)
    fmt, dims = format_of(x), dims_of(x, dim)
    if fmt.model is None:
        raise UnsupportedOperationError("mean", "AdditiveSharingTensor", "Encode before sharing with fix_precision().")
    if not count_of(x, dims):
        raise ValueError("mean() of a tensor without elements is not defined.")
    return fmt.link(ring_ops.truncate(ring_ops.total(content(x), dims, keepdim), count_of(x, dims)))


@rule(aten.var.correction, in_place=False)
def variance(x: Link, dim: Dims = None, correction: float | None = 1, keepdim: bool = False) -> Link:
    """Variance along dimensions: the mean of squared distances from the mean."""
    fmt, dims = format_of(x), dims_of(x, dim)
    correction = 1 if correction is None else correction
    distance = sub(x, mean(x, dims, True))
    squares = total(mul(distance, distance), dims, keepdim)
    count = count_of(x, dims) - correction
    if count <= 0:
        raise ValueError("var() needs more elements than the correction.")
    summed = content(squares)
    return fmt.link(times(summed, 1 / count, fmt) if count % 1 else ring_ops.truncate(summed, int(count)))


rule(aten.var_mean.correction, in_place=False)(
    lambda x, dim=None, correction=1, keepdim=False: (variance(x, dim, correction, keepdim), mean(x, dim, keepdim))
)


# --- products -----------------------------------------------------------------------------------------------


def _along_first(x: Link, dim: int) -> Value:
    value = content(x)
    if not len(x.shape):
        return ring_ops.reshape(value, [1])
    order = list(range(len(x.shape)))
    order.insert(0, order.pop(dim))
    return ring_ops.permute(value, order)


def _part(value: Value, start: int, stop: int, step: int = 1) -> Value:
    return ring_ops.local(aten.slice.Tensor, value, 0, start, stop, step)


def _tree_product(value: Value, scale: int) -> Value:
    """Multiply along the first dimension in a binary tree."""
    count = ring_ops.shape_of(value)[0]
    while count > 1:
        even = count // 2 * 2
        made = ring_ops.mul(_part(value, 0, even, 2), _part(value, 1, even, 2), scale)
        value = made if even == count else ring_ops.local(aten.cat.default, [made, _part(value, even, count)])
        count = ring_ops.shape_of(value)[0]
    return ring_ops.reshape(value, ring_ops.shape_of(value)[1:])


@rule(aten.prod.default, in_place=False)
def product_of_all(x: Link, dtype: torch.dtype | None = None) -> Link:
    """Product of all elements."""
    check_dtype(x, dtype)
    fmt = format_of(x)
    if not x.shape.numel():
        raise UnsupportedOperationError("prod of no elements", type(x).__name__)
    flat = ring_ops.reshape(content(x), [x.shape.numel()])
    return fmt.link(_tree_product(flat, fmt.scale))


@rule(aten.prod.dim_int, in_place=False)
def product_along(x: Link, dim: int, keepdim: bool = False, dtype: torch.dtype | None = None) -> Link:
    """Product along a dimension."""
    check_dtype(x, dtype)
    fmt = format_of(x)
    made = _tree_product(_along_first(x, dim), fmt.scale)
    if keepdim and len(x.shape):
        made = ring_ops.local(aten.unsqueeze.default, made, dim)
    return fmt.link(made)


@rule(aten.cumprod.default)
def cumprod(x: Link, dim: int, dtype: torch.dtype | None = None) -> Link:
    """Running product, in steps that double: each multiplies all elements by shifted ones."""
    check_dtype(x, dtype)
    fmt = format_of(x)
    value, step = _along_first(x, dim), 1
    count = ring_ops.shape_of(value)[0]
    while step < count:
        later = ring_ops.mul(_part(value, step, count), _part(value, 0, count - step), fmt.scale)
        value = ring_ops.local(aten.cat.default, [_part(value, 0, step), later])
        step *= 2
    if not len(x.shape):
        return fmt.link(ring_ops.reshape(value, []))
    order = list(range(1, len(x.shape)))
    order.insert(dim % len(x.shape), 0)
    return fmt.link(ring_ops.permute(value, order))


# --- extremes -----------------------------------------------------------------------------------------------


def _single(largest: bool, x: Link) -> Link:
    return format_of(x).link(ring_ops.extreme(content(x), None, False, largest))


def _along(largest: bool, x: Link, dim: int | None = None, keepdim: bool = False) -> tuple[Link, Link]:
    """Return an extreme along a dimension, or of all elements, and its index."""
    fmt, one_dim = format_of(x), None if dim is None or not len(x.shape) else dims_of(x, dim)[0]
    found, index = ring_ops.extreme_at(content(x), one_dim, keepdim, largest, fmt.scale)
    return fmt.link(found), fmt.link(index)


def _over(largest: bool, x: Link, dim: Dims = (), keepdim: bool = False) -> Link:
    value = content(x)
    for one in reversed(dims_of(x, dim)):
        value = ring_ops.extreme(value, one, keepdim, largest)
    return format_of(x).link(value)


def _register(largest: bool, name: str) -> Callable[..., Link]:
    """Register the rules of max or min, and return that for several dimensions."""
    kind: Any = getattr(torch.return_types, name)
    overloads = getattr(aten, name)
    rule(overloads.default, in_place=False)(functools.partial(_single, largest))
    rule(overloads.dim, in_place=False)(lambda *args: kind(_along(largest, *args)))
    rule(getattr(aten, f"arg{name}").default, in_place=False)(lambda *args: _along(largest, *args)[1])
    return rule(getattr(aten, f"a{name}").default, in_place=False)(functools.partial(_over, largest))


amax, amin = _register(True, "max"), _register(False, "min")
