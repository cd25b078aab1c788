"""Pooling windows over images with any number of dimensions, as public positions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import torch


@dataclasses.dataclass(frozen=True, slots=True)
class Windows:
    """The positions of the elements of windows.

    Attributes:
        positions: the flat positions of elements in an image, -1 outside of it: (elements, *windows).
        counted: whether elements are in the image or in its padding, of the same shape.
    """

    positions: torch.Tensor
    counted: torch.Tensor

    @property
    def inside(self) -> torch.Tensor:
        """Whether elements are in the image."""
        return self.positions >= 0

    @property
    def sizes(self) -> list[int]:
        """The number of windows along each dimension."""
        return list(self.positions.shape[1:])

    def repeated(self) -> torch.Tensor:
        """Return positions with elements outside the image replaced by the first element of their window."""
        if bool((self.positions.max(0).values < 0).any()):
            raise RuntimeError("max_pool: a window lies entirely in the padding")
        first = self.positions.where(self.inside, torch.iinfo(torch.int64).max).min(0).values
        return self.positions.where(self.inside, first)


def each(value: int | Sequence[int], count: int, default: Sequence[int] = ()) -> list[int]:
    """Return an option for every dimension: torch passes some once for all, and leaves others out."""
    numbers = list(value) if not isinstance(value, int) else [value]
    numbers = numbers or list(default)
    return numbers * count if len(numbers) == 1 else numbers


def regular(
    sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int] = (), padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,), ceil: bool = False,
) -> Windows:  # fmt: skip
    """Return windows of one size at a constant stride.

    Args:
        sizes: the image's size along each dimension.
        kernel: the size of a window.
        stride: the distance between windows; the size of a window by default.
        padding: the padding on both sides.
        dilation: the distance between elements of a window.
        ceil: whether the last window may exceed the padding.
    """
    count = len(sizes)
    kernels = each(kernel, count)
    options = (kernels, each(stride, count, kernels), each(padding, count, (0,)), each(dilation, count, (1,)))
    axes = []
    for size, k, s, p, d in zip(sizes, *options, strict=True):
        starts = torch.arange(_number_of(size, k, s, p, d, ceil)) * s - p
        places = starts + torch.arange(k)[:, None] * d
        axes.append((places, size, p))
    return _crossed(axes)


def _number_of(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool) -> int:
    """Return the number of windows along a dimension; invalid sizes raise the errors of torch."""
    if min(kernel, stride, dilation) < 1:
        raise RuntimeError("pool: kernel size, stride and dilation should be greater than zero")
    if not 0 <= padding <= ((kernel - 1) * dilation + 1) // 2:
        raise RuntimeError(
            f"pool: pad should be at most half of effective kernel size, but got pad={padding}, kernel_size={kernel} "
            f"and dilation={dilation}"
        )
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (-(-room // stride) if ceil else room // stride) + 1
    if ceil and (count - 1) * stride >= size + padding:  # the last window would begin in the padding
        count -= 1
    if count < 1:
        raise RuntimeError(f"pool: a window of {kernel} on a side of {size}: output size is too small")
    return count


def adaptive(sizes: Sequence[int], wanted: int | Sequence[int]) -> Windows:
    """Return a given number of windows that cover the image; sizes differ by at most one element.

    Args:
        sizes: the image's size along each dimension.
        wanted: the number of windows along each dimension; None for the size of the image.
    """
    axes = []
    options: list[int | None] = [*each(wanted, len(sizes))]
    for size, option in zip(sizes, options, strict=True):
        count = size if option is None else option
        if size < 1 or count < 0:
            raise RuntimeError(f"adaptive pool: {count} windows on a side of {size}")
        starts = [i * size // count for i in range(count)]
        ends = [-(-(i + 1) * size // count) for i in range(count)]
        longest = max((end - start for start, end in zip(starts, ends, strict=True)), default=1)
        places = torch.tensor(starts, dtype=torch.int64) + torch.arange(longest)[:, None]
        axes.append((places.where(places < torch.tensor(ends, dtype=torch.int64), -1), size, 0))
    return _crossed(axes)


def _crossed(axes: list[tuple[torch.Tensor, int, int]]) -> Windows:
    """Combine the positions along each dimension: (elements, windows), the size of the image, and its padding."""
    dims = len(axes)
    elements = [places.shape[0] for places, _, _ in axes]
    counts = [places.shape[1] for places, _, _ in axes]
    full = [*elements, *counts]
    positions = torch.zeros(full, dtype=torch.int64)
    inside = torch.ones(full, dtype=torch.bool)
    counted = torch.ones(full, dtype=torch.bool)
    for dim, (places, size, padding) in enumerate(axes):
        shape = [1] * (2 * dims)
        shape[dim], shape[dims + dim] = places.shape
        along = places.reshape(shape)
        positions = positions * size + along
        inside = inside & (along >= 0) & (along < size)
        counted = counted & (along >= -padding) & (along < size + padding)
    flat = [math.prod(elements), *counts]
    return Windows(positions.where(inside, -1).reshape(flat), counted.reshape(flat))
