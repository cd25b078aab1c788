"""Rules for pooling: windows are gathered by public positions, then added up or compared."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch

from syft.core.autograd_state import is_followed
from syft.core.references import TensorMeta
from syft.core.tensor import AbstractTensor, Level
from syft.exceptions import UnsupportedOperationError
from syft.mpc.rules import public_scaling
from syft.mpc.rules.gradients import finer
from syft.mpc.rules.indexing import add_at, gather_at
from syft.mpc.rules.operands import FixedPointFormat, aten, content, format_of, rule, to_integers
from syft.mpc.rules.types import AnyTensor, Link, Operation, Sizes, Value
from syft.mpc.values import ring_ops


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


def each(value: int | Sizes, count: int, default: Sizes = ()) -> list[int]:
    """Return an option for every dimension: torch passes some once for all, and leaves others out."""
    numbers = list(value) if not isinstance(value, int) else [value]
    numbers = numbers or list(default)
    return numbers * count if len(numbers) == 1 else numbers


def regular(
    sizes: Sizes, kernel: Sizes, stride: Sizes = (), padding: Sizes = (0,),
    dilation: Sizes = (1,), ceil: bool = False,
) -> Windows:  # fmt: skip
    """Return windows of one size at a constant stride, as in torch's pooling; ceil lets the last exceed the padding."""
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


def adaptive(sizes: Sizes, wanted: int | Sizes) -> Windows:
    """Return a wanted number of windows (None: as many as elements) that cover the image, almost equal in size."""
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


class WindowIndices(AbstractTensor):
    """The indices that max pooling returns: usable only by its gradient, so it has no rules for arithmetic.

    Args:
        child: a tensor with the shape of the result.
        path: the results of the comparisons that gave each maximum, if autograd records.
    """

    level: ClassVar[Level] = Level.ATEN
    priority: ClassVar[int] = 3

    def __init__(self, child: torch.Tensor, path: Value | None = None) -> None:
        super().__init__(child=child)
        self.path = path

    def tensor_meta(self) -> TensorMeta:
        """Return the shape; torch's own indices are int64."""
        return TensorMeta(torch.Size(self.child.shape), torch.int64)


def _on_indices(operation: Operation, x: Any, *args: object) -> WindowIndices:
    return WindowIndices(operation(x.child, *args), x.path)


# torch implements pooling in one dimension by pooling in two, with a dimension added and removed.
for _operation in (aten.squeeze.dim, aten.squeeze.default, aten.unsqueeze.default):
    WindowIndices.implements(_operation)(functools.partial(_on_indices, _operation))


# --- means ------------------------------------------------------------------------------------------------------


def _divided(value: Value, counts: torch.Tensor, fmt: FixedPointFormat) -> Value:
    """Divide the sums of windows by the numbers of their elements."""
    if not counts.numel():
        return value
    if int(counts.min()) == int(counts.max()):
        return ring_ops.truncate(value, int(counts.max()))
    return public_scaling.divide(value, counts, fmt)


def _average(x: Link, windows: Windows, counts: torch.Tensor) -> Link:
    fmt, dims = format_of(x), len(windows.sizes)
    if fmt.model is None:
        raise UnsupportedOperationError("A mean of windows", "AdditiveSharingTensor", "Encode before sharing.")
    divided = _divided(ring_ops.total(gather_at(content(x), windows.positions, dims), [1]), counts, fmt)
    return fmt.link(ring_ops.reshape(divided, [*x.shape[:-dims], *windows.sizes]))


def _average_back(grad: AnyTensor, x: AnyTensor, windows: Windows, counts: torch.Tensor) -> Link:
    """Spread each gradient over its window."""
    fmt, dims = format_of(grad), len(windows.sizes)
    fmt = finer(fmt, int(counts.max()) if counts.numel() else 1)
    images = math.prod(x.shape[:-dims])
    shares = _divided(ring_ops.reshape(to_integers(grad, fmt), [images, *windows.sizes]), counts, fmt)
    flat = ring_ops.reshape(shares, [images, 1, *windows.sizes])
    spread = ring_ops.expand(flat, [images, *windows.positions.shape])
    return fmt.link(add_at(spread, windows.positions, x.shape, dims))


def _averaged(
    sizes: Sizes, kernel: Sizes, stride: Sizes = (), padding: Sizes = (0,), ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> tuple[Windows, torch.Tensor]:  # fmt: skip
    """Return the windows of a mean, and the divisors of their sums."""
    windows = regular(sizes, kernel, stride, padding, ceil=ceil_mode)
    if divisor_override is not None:
        return windows, torch.full(windows.sizes, divisor_override)
    return windows, (windows.counted if count_include_pad else windows.inside).sum(0)


def _averaged_adaptively(sizes: Sizes, wanted: Sizes) -> tuple[Windows, torch.Tensor]:
    windows = adaptive(sizes, wanted)
    return windows, windows.inside.sum(0)


# --- maxima -----------------------------------------------------------------------------------------------------


def _largest(x: Link, windows: Windows) -> tuple[Link, WindowIndices]:
    """Return the maximum of each window, and the path of its comparisons if the gradient needs it."""
    fmt, dims = format_of(x), len(windows.sizes)
    laid = gather_at(content(x), windows.repeated(), dims)
    found, path = ring_ops.extreme_and_path(laid, 1) if is_followed() else (ring_ops.extreme(laid, 1), None)
    made = fmt.link(ring_ops.reshape(found, [*x.shape[:-dims], *windows.sizes]))
    return made, WindowIndices(torch.empty(tuple(made.shape), device="meta"), path)


def _largest_back(grad: AnyTensor, x: AnyTensor, windows: Windows, indices: WindowIndices) -> Link:
    """Send each gradient to the maximum of its window."""
    fmt, dims, positions = format_of(grad, x), len(windows.sizes), windows.repeated()
    path = getattr(indices, "path", None)
    if path is None:
        raise UnsupportedOperationError(
            "The gradient of a maximum that was computed without gradients",
            type(x).__name__,
            "Enable gradients before pooling.",
        )
    given = ring_ops.reshape(to_integers(grad, fmt), [math.prod(x.shape[:-dims]), *windows.sizes])
    spread = ring_ops.path_back(given, path, positions.shape[0])
    order = [1, 0, *range(2, 2 + dims)]
    return fmt.link(add_at(ring_ops.permute(spread, order), positions, x.shape, dims))


_RULES: dict[str, Callable[..., Any]] = {
    "avg_pool{}d": lambda dims, x, *options: _average(x, *_averaged(x.shape[-dims:], *options)),
    "avg_pool{}d_backward": lambda dims, grad, x, *options: _average_back(
        grad, x, *_averaged(x.shape[-dims:], *options)
    ),
    "_adaptive_avg_pool{}d": lambda dims, x, sizes: _average(x, *_averaged_adaptively(x.shape[-dims:], sizes)),
    "_adaptive_avg_pool{}d_backward": lambda dims, grad, x: _average_back(
        grad, x, *_averaged_adaptively(x.shape[-dims:], grad.shape[-dims:])
    ),
    "max_pool{}d_with_indices": lambda dims, x, *options: _largest(x, regular(x.shape[-dims:], *options)),
    "max_pool{}d_with_indices_backward": lambda dims, grad, x, *options: _largest_back(
        grad, x, regular(x.shape[-dims:], *options[:-1]), options[-1]
    ),
    "adaptive_max_pool{}d": lambda dims, x, sizes: _largest(x, adaptive(x.shape[-dims:], sizes)),
    "adaptive_max_pool{}d_backward": lambda dims, grad, x, indices: _largest_back(
        grad, x, adaptive(x.shape[-dims:], grad.shape[-dims:]), indices
    ),
}
for _name, _function in _RULES.items():
    for _dims in (2, 3):
        rule(getattr(aten, _name.format(_dims)).default, in_place=False)(functools.partial(_function, _dims))
