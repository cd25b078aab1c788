"""Rules for rearranging images: padding, upsampling, pixel shuffle, unfold; and their gradients.

Calls that only move elements are run on public positions; their gradients add up at these positions. Interpolation is
a product with a public matrix along each dimension, and its gradient one with the transposed matrix.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from syft.mpc.rules.indexing import refuse_private
from syft.mpc.rules.operands import aten, content, format_of, rule, to_integers
from syft.mpc.rules.public_scaling import product
from syft.mpc.rules.types import AnyTensor, Link, Operation, Sizes, Value
from syft.mpc.values import ring_ops


def _moved(operation: Operation) -> Callable[..., Link]:
    """Make the rule of a call that only moves elements, by running it on their positions."""

    def run(x: Link, *args: object, **kwargs: object) -> Link:
        refuse_private(operation, (args, kwargs))
        # torch supports all these calls for float64, which represents positions exactly.
        positions = torch.arange(x.shape.numel(), dtype=torch.float64).view(tuple(x.shape))
        return format_of(x).link(ring_ops.pick(content(x), operation(positions, *args, **kwargs).long()))

    return run


for _operation in (
    aten.take.default, aten.pixel_shuffle.default, aten.pixel_unshuffle.default, aten.as_strided_copy.default,
    aten.channel_shuffle.default,
):  # fmt: skip
    rule(_operation, in_place=False)(_moved(_operation))


# --- padding and nearest neighbours ------------------------------------------------------------------------------


def _positions(operation: Operation, sizes: list[int], *args: object) -> torch.Tensor:
    """Return the flat source position of each element of a rearranged image."""
    image = torch.arange(math.prod(sizes), dtype=torch.float64).view(1, 1, *sizes)
    return operation(image, *args).long()[0, 0]  # type: ignore[no-any-return]


def _images(value: Value, dims: int) -> tuple[Value, list[int], list[int]]:
    """Return images as rows, with their leading dimensions and their sizes."""
    before, sizes = list(ring_ops.shape_of(value)[:-dims]), list(ring_ops.shape_of(value)[-dims:])
    return ring_ops.reshape(value, [math.prod(before), math.prod(sizes)]), before, sizes


def _forward(operation: Operation, dims: int) -> Callable[..., Link]:
    def run(x: Link, *args: object) -> Link:
        rows, before, sizes = _images(content(x), dims)
        positions = _positions(operation, sizes, *args)
        picked = ring_ops.local(aten.index_select.default, rows, 1, positions.reshape(-1))
        return format_of(x).link(ring_ops.reshape(picked, [*before, *positions.shape]))

    return run


def _added_up(value: Value, positions: torch.Tensor, count: int) -> Value:
    """Add up the columns of a matrix at public positions."""
    base, value = ring_ops.together([torch.zeros(ring_ops.shape_of(value)[0], count, dtype=torch.int64), value])
    return ring_ops.local(aten.index_add.default, base, 1, positions.reshape(-1), value)


def _backward(operation: Operation, dims: int, shape: Sizes, grad: AnyTensor, *args: object) -> Link:
    fmt = format_of(grad)
    positions = _positions(operation, list(shape[-dims:]), *args)
    rows, _, _ = _images(to_integers(grad, fmt), dims)
    return fmt.link(ring_ops.reshape(_added_up(rows, positions, math.prod(shape[-dims:])), list(shape)))


def _pad_backward(operation: Operation, dims: int) -> Callable[..., Link]:
    def run(grad: AnyTensor, x: AnyTensor, padding: Sizes) -> Any:
        return _backward(operation, dims, x.shape, grad, padding)

    return run


def _upsample_backward(operation: Operation, dims: int) -> Callable[..., Link]:
    def run(grad: AnyTensor, output_size: Sizes, input_size: Sizes, *scales: float | None) -> Any:
        return _backward(operation, dims, input_size, grad, output_size, *scales)

    return run


for _dims in (1, 2, 3):
    for _name, _make in (
        (f"reflection_pad{_dims}d", _pad_backward),
        (f"replication_pad{_dims}d", _pad_backward),
        (f"upsample_nearest{_dims}d", _upsample_backward),
        (f"_upsample_nearest_exact{_dims}d", _upsample_backward),
    ):
        _operation = getattr(aten, _name).default
        rule(_operation, in_place=False)(_forward(_operation, _dims))
        rule(getattr(aten, f"{_name}_backward").default, in_place=False)(_make(_operation, _dims))


# --- interpolation ------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _matrix(kind: str, size: int, wanted: int, align: bool, scale: float | None) -> torch.Tensor:
    """Return the interpolation matrix along one dimension: (input size, output size)."""
    eye = torch.eye(size, dtype=torch.float64)
    if kind == "cubic":
        made = aten.upsample_bicubic2d.default(eye.view(1, size, 1, size), [1, wanted], align, None, scale)
    else:
        made = aten.upsample_linear1d.default(eye.view(1, size, size), [wanted], align, scale)
    matrix: torch.Tensor = made.reshape(size, wanted)
    return matrix


def _along(value: AnyTensor, dim: int, matrix: torch.Tensor) -> Link:
    """Multiply along one dimension by a public matrix."""
    fmt = format_of(value)
    last = len(value.shape) - 1
    turned = fmt.link(ring_ops.local(aten.transpose.int, to_integers(value, fmt), dim, last))
    made = product("matmul", turned, matrix, fmt)
    return fmt.link(ring_ops.local(aten.transpose.int, made, dim, last))


def _interpolate(kind: str, dims: int) -> Callable[..., Link]:
    def run(x: AnyTensor, output_size: Sizes, align: bool, *scales: float | None) -> Any:
        factors = [*scales, *[None] * (dims - len(scales))]
        for i in range(dims):
            dim = len(x.shape) - dims + i
            x = _along(x, dim, _matrix(kind, x.shape[dim], output_size[i], align, factors[i]))
        return x

    return run


def _interpolate_backward(kind: str, dims: int) -> Callable[..., Link]:
    def run(grad: AnyTensor, output_size: Sizes, input_size: Sizes, align: bool, *scales: float | None) -> Any:
        factors = [*scales, *[None] * (dims - len(scales))]
        for i in range(dims):
            dim = len(input_size) - dims + i
            grad = _along(grad, dim, _matrix(kind, input_size[dim], output_size[i], align, factors[i]).t())
        return grad

    return run


for _name, _kind, _dims in (
    ("upsample_linear1d", "linear", 1), ("upsample_bilinear2d", "linear", 2), ("upsample_trilinear3d", "linear", 3),
    ("upsample_bicubic2d", "cubic", 2),
):  # fmt: skip
    rule(getattr(aten, _name).default, in_place=False)(_interpolate(_kind, _dims))
    rule(getattr(aten, f"{_name}_backward").default, in_place=False)(_interpolate_backward(_kind, _dims))


# --- unfold and fold -----------------------------------------------------------------------------------------


def _columns(sizes: list[int], *options: object) -> torch.Tensor:
    """Return the positions of the elements of windows in an image of (channels, height, width); -1 in the padding."""
    image = torch.arange(1, math.prod(sizes) + 1, dtype=torch.float64).view(1, *sizes)
    return aten.im2col.default(image, *options)[0].long() - 1  # type: ignore[no-any-return]


@rule(aten.im2col.default, in_place=False)
def unfold(x: Link, *options: object) -> Link:
    """Extract windows as columns."""
    rows, before, sizes = _images(content(x), 3)
    positions = _columns(sizes, *options)
    picked = ring_ops.local(aten.index_select.default, rows, 1, positions.clamp(min=0).reshape(-1))
    if bool((positions < 0).any()):
        picked = ring_ops.mul(picked, (positions >= 0).long().reshape(-1))
    return format_of(x).link(ring_ops.reshape(picked, [*before, *positions.shape]))


@rule(aten.col2im.default, in_place=False)
def fold(x: Link, output_size: Sizes, kernel_size: Sizes, *options: object) -> Link:
    """Sum windows to an image."""
    rows, before, sizes = _images(content(x), 2)
    shape = [sizes[0] // math.prod(kernel_size), *output_size]
    positions = _columns(shape, kernel_size, *options)
    if positions.numel() != math.prod(sizes):
        raise RuntimeError(f"fold: {sizes[1]} windows do not make an image of {tuple(output_size)}")
    if bool((positions < 0).any()):
        rows = ring_ops.mul(rows, (positions >= 0).long().reshape(-1))
    summed = _added_up(rows, positions.clamp(min=0), math.prod(shape))
    return format_of(x).link(ring_ops.reshape(summed, [*before, *shape]))
