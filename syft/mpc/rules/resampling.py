"""Rules for rearranging images: padding, upsampling, pixel shuffle, unfold; and their gradients.

Calls that only move elements are run on public positions; their gradients add up at these positions. Interpolation is
a product with a public matrix along each dimension, and its gradient one with the transposed matrix.
"""

from __future__ import annotations

import functools
import math

import torch

from syft.mpc.rules.indexing import add_at, gather_at, refuse_private
from syft.mpc.rules.operands import aten, content, format_of, rule, to_integers
from syft.mpc.rules.public_scaling import product
from syft.mpc.rules.types import AnyTensor, Link, Operation, Sizes
from syft.mpc.values import ring_ops


def _moved(operation: Operation, x: Link, *args: object, **kwargs: object) -> Link:
    """Run a call that only moves elements on their positions."""
    refuse_private(operation, (args, kwargs))
    # torch supports all these calls for float64, which represents positions exactly.
    positions = torch.arange(x.shape.numel(), dtype=torch.float64).view(tuple(x.shape))
    return format_of(x).link(ring_ops.pick(content(x), operation(positions, *args, **kwargs).long()))


for _operation in (
    aten.take.default, aten.pixel_shuffle.default, aten.pixel_unshuffle.default, aten.as_strided_copy.default,
    aten.channel_shuffle.default,
):  # fmt: skip
    rule(_operation, in_place=False)(functools.partial(_moved, _operation))


# --- padding, nearest neighbours, unfold and fold ------------------------------------------------------------------


def _positions(operation: Operation, shape: Sizes, dims: int, *args: object) -> torch.Tensor:
    """Return the flat source position of each element of a rearranged image of some dimensions; -1 for zeros."""
    sizes, before = shape[-dims:], 1 if operation is aten.im2col.default else 2
    image = torch.arange(1, math.prod(sizes) + 1, dtype=torch.float64).view(*[1] * before, *sizes)
    made: torch.Tensor = operation(image, *args).long() - 1
    return made.reshape(made.shape[before:])


def _forward(operation: Operation, dims: int, x: Link, *args: object) -> Link:
    """Take the elements of a rearranged image from their source positions."""
    positions = _positions(operation, x.shape, dims, *args)
    taken = gather_at(content(x), positions, dims)
    return format_of(x).link(ring_ops.reshape(taken, [*x.shape[:-dims], *positions.shape]))


def _backward(operation: Operation, dims: int, shape: Sizes, grad: AnyTensor, *args: object) -> Link:
    """Add up the elements of a rearranged image at their source positions in an image of a shape."""
    fmt, positions = format_of(grad), _positions(operation, shape, dims, *args)
    return fmt.link(add_at(to_integers(grad, fmt), positions, shape, dims))


def _pad_backward(operation: Operation, dims: int, grad: AnyTensor, x: AnyTensor, padding: Sizes) -> Link:
    return _backward(operation, dims, x.shape, grad, padding)


def _upsample_backward(
    operation: Operation, dims: int, grad: AnyTensor, output_size: Sizes, shape: Sizes, *scales: float | None
) -> Link:
    return _backward(operation, dims, shape, grad, output_size, *scales)


for _dims in (1, 2, 3):
    for _name, _of_grad in (
        (f"reflection_pad{_dims}d", _pad_backward),
        (f"replication_pad{_dims}d", _pad_backward),
        (f"upsample_nearest{_dims}d", _upsample_backward),
        (f"_upsample_nearest_exact{_dims}d", _upsample_backward),
    ):
        _operation = getattr(aten, _name).default
        rule(_operation, in_place=False)(functools.partial(_forward, _operation, _dims))
        rule(getattr(aten, f"{_name}_backward").default, in_place=False)(functools.partial(_of_grad, _operation, _dims))
rule(aten.im2col.default, in_place=False)(functools.partial(_forward, aten.im2col.default, 3))


@rule(aten.col2im.default, in_place=False)
def fold(x: Link, output_size: Sizes, kernel_size: Sizes, *options: object) -> Link:
    """Sum windows to an image."""
    *before, columns, windows = x.shape
    shape = [*before, columns // math.prod(kernel_size), *output_size]
    if _positions(aten.im2col.default, shape, 3, kernel_size, *options).shape != (columns, windows):
        raise RuntimeError(f"fold: {windows} windows do not make an image of {tuple(output_size)}")
    return _backward(aten.im2col.default, 3, shape, x, kernel_size, *options)


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


def _interpolate(
    kind: str, dims: int, x: AnyTensor, output_size: Sizes, align: bool, *scales: float | None
) -> AnyTensor:
    for at, dim in enumerate(range(len(x.shape) - dims, len(x.shape))):
        factor = scales[at] if scales else None
        x = _along(x, dim, _matrix(kind, x.shape[dim], output_size[at], align, factor))
    return x


def _interpolate_backward(
    kind: str, dims: int, grad: AnyTensor, output_size: Sizes, shape: Sizes, align: bool, *scales: float | None
) -> AnyTensor:
    for at, dim in enumerate(range(len(shape) - dims, len(shape))):
        factor = scales[at] if scales else None
        grad = _along(grad, dim, _matrix(kind, shape[dim], output_size[at], align, factor).t())
    return grad


for _name, _kind, _dims in (
    ("upsample_linear1d", "linear", 1), ("upsample_bilinear2d", "linear", 2), ("upsample_trilinear3d", "linear", 3),
    ("upsample_bicubic2d", "cubic", 2),
):  # fmt: skip
    rule(getattr(aten, _name).default, in_place=False)(functools.partial(_interpolate, _kind, _dims))
    rule(getattr(aten, f"{_name}_backward").default, in_place=False)(
        functools.partial(_interpolate_backward, _kind, _dims)
    )
