"""Rules for pooling: windows are laid out by public positions, then added up or compared."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch

from syft.core.references import TensorMeta
from syft.core.tensor import AbstractTensor, Level
from syft.exceptions import UnsupportedOperation
from syft.mpc import values
from syft.mpc.rules.operands import Value, aten, content, form_of, rule


class WindowPlaces(AbstractTensor):
    """Where in its window each maximum was found: for the gradient alone, so it has no rules."""

    level: ClassVar[Level] = Level.ATEN
    priority: ClassVar[int] = 3

    def tensor_meta(self) -> TensorMeta:
        """Return the shape; torch's own indices are int64."""
        return TensorMeta(torch.Size(self.child.shape), torch.int64)


def _of_places(operation: Any) -> Any:
    def run(x: WindowPlaces, *args: Any) -> WindowPlaces:
        return WindowPlaces(child=values.local(operation, x.child, *args))

    return run


# Pooling in one dimension is pooling in two, with a dimension added and taken away.
for _operation in (aten.squeeze.dim, aten.squeeze.default, aten.unsqueeze.default):
    WindowPlaces.implements(_operation)(_of_places(_operation))


def _pair(value: Any, default: Any = None) -> tuple[int, int]:
    numbers = list(value) or list(default)
    return (numbers[0], numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])


def _windows(x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> tuple[torch.Tensor, Any]:
    """Return for each window of one image the flat positions of its elements, and which of them are padding.

    Gives (elements of a window, height, width), with -1 where a window reaches beyond the padding.
    """
    height, width = x.shape[-2:]
    kernel, padding, dilation = _pair(kernel), _pair(padding, (0,)), _pair(dilation, (1,))
    stride = _pair(stride, kernel)
    outs = []
    for size, k, s, p, d in zip((height, width), kernel, stride, padding, dilation, strict=True):
        _check_window(size, k, s, p, d)
        room = size + 2 * p - d * (k - 1) - 1
        count = (-(-room // s) if ceil else room // s) + 1
        if ceil and (count - 1) * s >= size + p:  # the last window would begin in the padding
            count -= 1
        outs.append(count)
    rows, columns = (
        torch.arange(outs[i])[:, None] * stride[i] - padding[i] + torch.arange(kernel[i]) * dilation[i] for i in (0, 1)
    )
    grid = rows.t()[:, None, :, None] * width + columns.t()[None, :, None, :]
    inside = _within(rows, 0, height, columns, 0, width)
    padded = _within(rows, -padding[0], height + padding[0], columns, -padding[1], width + padding[1])
    flat = grid.where(inside, -torch.ones((), dtype=torch.int64)).reshape(-1, *outs)
    return flat, padded.expand(grid.shape).reshape(-1, *outs)


def _check_window(size: int, kernel: int, stride: int, padding: int, dilation: int) -> None:
    """Raise what torch raises for windows that make no sense."""
    if min(kernel, stride, dilation) < 1:
        raise RuntimeError("pool: kernel size, stride and dilation should be greater than zero")
    if not 0 <= padding <= ((kernel - 1) * dilation + 1) // 2:
        raise RuntimeError(
            f"pool: pad should be at most half of effective kernel size, but got pad={padding}, kernel_size={kernel} "
            f"and dilation={dilation}"
        )
    if size + 2 * padding < dilation * (kernel - 1) + 1:
        raise RuntimeError(f"pool: a window of {kernel} on a side of {size}: output size is too small")


def _within(rows: torch.Tensor, top: int, bottom: int, columns: torch.Tensor, left: int, right: int) -> torch.Tensor:
    """Tell which elements of windows lie between some rows and columns."""
    by_row, by_column = (rows >= top) & (rows < bottom), (columns >= left) & (columns < right)
    return by_row.t()[:, None, :, None] & by_column.t()[None, :, None, :]


def _laid_out(x: Any, positions: torch.Tensor) -> Value:
    """Return the windows of all images: (images, elements of a window, height, width)."""
    value = content(x)
    area = x.shape[-1] * x.shape[-2]
    images = x.shape.numel() // area if area else 0
    flat = values.reshape(value, [images, area])
    picked = values.local(aten.index_select.default, flat, 1, positions.reshape(-1))
    return values.reshape(picked, [images, *positions.shape])


@rule(aten.avg_pool2d.default, in_place=False)
def avg_pool2d(
    x: Any, kernel: Any, stride: Any = (), padding: Any = (0,), ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:  # fmt: skip
    """Mean of each window."""
    form = form_of(x)
    if form.model is None:
        raise UnsupportedOperation("avg_pool2d", "AdditiveSharingTensor", "Encode before sharing with fix_precision().")
    positions, padded = _windows(x, kernel, stride, padding, (1,), ceil_mode)
    inside = positions >= 0
    laid = _laid_out(x, positions.clamp(min=0))
    if not bool(inside.all()):
        laid = values.mul(laid, inside.long())
    summed = values.total(laid, [1])
    counts = (padded if count_include_pad else inside).sum(0)
    shape = [*x.shape[:-2], *positions.shape[1:]]
    if divisor_override is not None:
        return form.link(values.reshape(values.truncate(summed, divisor_override), shape))
    if int(counts.min()) == int(counts.max()):
        return form.link(values.reshape(values.truncate(summed, int(counts.max())), shape))
    # Windows of different sizes: each is multiplied by what makes all divisors the same.
    common = _least_common(counts)
    return form.link(values.reshape(values.mul(summed, common // counts, common), shape))


def _least_common(counts: torch.Tensor) -> int:
    return math.lcm(*{int(count) for count in counts.reshape(-1)})


@rule(aten.avg_pool2d_backward.default, in_place=False)
def avg_pool2d_backward(
    grad: Any, x: Any, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> Any:  # fmt: skip
    """Spread each gradient over its window."""
    form = form_of(grad)
    positions, padded = _windows(x, kernel, stride, padding, (1,), ceil_mode)
    inside = positions >= 0
    counts = (padded if count_include_pad else inside).sum(0)
    area = x.shape[-1] * x.shape[-2]
    images = x.shape.numel() // area
    common = _least_common(counts) if divisor_override is None else divisor_override
    weights = common // counts if divisor_override is None else torch.ones_like(counts)
    shares = values.mul(content(grad), weights, common)
    flat = values.reshape(shares, [images, 1, *positions.shape[1:]])
    spread = values.expand(flat, [images, *positions.shape])
    if not bool(inside.all()):
        spread = values.mul(spread, inside.long())
    return form.link(_gathered_back(spread, positions, images, area, x.shape))


def _gathered_back(spread: Value, positions: torch.Tensor, images: int, area: int, shape: Any) -> Value:
    """Add up what windows give back to each position."""
    count = positions.numel()
    flat = values.reshape(spread, [images, count])
    nothing = torch.zeros(images, area, dtype=torch.int64)
    base, flat = values.together([nothing, flat])
    summed = values.local(aten.index_add.default, base, 1, positions.clamp(min=0).reshape(-1), flat)
    return values.reshape(summed, list(shape))


def _inside(x: Any, positions: torch.Tensor) -> torch.Tensor:
    """Repeat the first element of a window where it lies outside of the image: this changes no maximum."""
    if bool((positions.max(0).values < 0).any()):
        raise UnsupportedOperation("A window that lies wholly in the padding", type(x).__name__)
    outside = torch.Size(x.shape).numel()
    first = positions.where(positions >= 0, outside).min(0).values
    return positions.where(positions >= 0, first)


@rule(aten.max_pool2d_with_indices.default, in_place=False)
def max_pool2d(
    x: Any, kernel: Any, stride: Any = (), padding: Any = (0,), dilation: Any = (1,), ceil_mode: bool = False
) -> Any:
    """Largest element of each window, and its position in the image."""
    form = form_of(x)
    positions = _inside(x, _windows(x, kernel, stride, padding, dilation, ceil_mode)[0])
    largest, place = values.extreme_at(_laid_out(x, positions), 1)
    shape = [*x.shape[:-2], *positions.shape[1:]]
    return form.link(values.reshape(largest, shape)), WindowPlaces(child=values.reshape(place, shape))


@rule(aten.max_pool2d_with_indices_backward.default, in_place=False)
def max_pool2d_backward(
    grad: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, indices: Any
) -> Any:
    """Give each gradient to the element of its window that was the largest."""
    form = form_of(grad, x)
    positions = _inside(x, _windows(x, kernel, stride, padding, dilation, ceil_mode)[0])
    area = x.shape[-1] * x.shape[-2]
    images = x.shape.numel() // area
    window = [images, 1, *positions.shape[1:]]
    steps = torch.arange(positions.shape[0]).view(1, -1, 1, 1)
    here = values.zero(values.sub(values.reshape(indices.child, window), steps))
    spread = values.mul(values.reshape(content(grad), window), here)
    return form.link(_gathered_back(spread, positions, images, area, x.shape))
