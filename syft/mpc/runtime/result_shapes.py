"""The shapes of results, computed by hand: torch's shape inference is slow, and slow to load.

For calls that are not here, torch computes the shape on the meta device, and the result is cached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from syft.core.trees import map_tensors
from syft.mpc.ring import arithmetic
from syft.mpc.ring.arithmetic import PerDimension

Shape = tuple[int, ...]
_cache: dict[Any, Any] = {}
MAX_CACHED = 4096


def matmul(x: Shape, y: Shape) -> torch.Size:
    """Return the shape of a product of matrices."""
    if not x or not y or x[-1] != y[-2 if len(y) > 1 else 0]:
        raise RuntimeError(f"Tensors of shapes {tuple(x)} and {tuple(y)} can't be multiplied as matrices.")
    batch = arithmetic.broadcast(x[:-2], y[:-2])
    return torch.Size([*batch, *x[-2:-1], *(y[-1:] if len(y) > 1 else ())])


def _each(value: PerDimension, count: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * count if len(values) == 1 else values


def conv(
    x: Shape,
    weight: Shape,
    stride: PerDimension = 1,
    padding: PerDimension = 0,
    dilation: PerDimension = 1,
    groups: int = 1,
    transposed: bool = False,
    output_padding: PerDimension = 0,
) -> torch.Size:
    """Return the shape of a convolution."""
    count = len(x) - 2
    inner = weight[0] if transposed else weight[1] * groups
    if count not in (1, 2, 3) or len(weight) != len(x) or x[1] != inner or groups < 1:
        raise RuntimeError(
            f"A weight of shape {tuple(weight)} in {groups} groups can't be applied to images of shape {tuple(x)}."
        )
    strides, paddings, dilations, more = (_each(v, count) for v in (stride, padding, dilation, output_padding))
    spatial = []
    for i in range(count):
        reach = dilations[i] * (weight[2 + i] - 1)
        if transposed:
            spatial.append((x[2 + i] - 1) * strides[i] - 2 * paddings[i] + reach + more[i] + 1)
        else:
            spatial.append((x[2 + i] + 2 * paddings[i] - reach - 1) // strides[i] + 1)
    if min(spatial) < 1:
        raise RuntimeError(f"A kernel of {tuple(weight[2:])} is too large for images of {tuple(x[2:])}.")
    return torch.Size([x[0], weight[1] * groups if transposed else weight[0], *spatial])


def _same(x: torch.Tensor, *args: object, **options: object) -> torch.Size:
    return x.shape


def _none(x: torch.Tensor) -> torch.Size:
    return torch.Size(())


def _sum(x: torch.Tensor, dims: Sequence[int] | None = None, keepdim: bool = False) -> torch.Size:
    count = x.dim()
    gone = {dim % count for dim in dims} if dims and count else set(range(count))
    if keepdim:
        return torch.Size([1 if i in gone else size for i, size in enumerate(x.shape)])
    return torch.Size([size for i, size in enumerate(x.shape) if i not in gone])


def _cat(tensors: Sequence[torch.Tensor], dim: int = 0) -> torch.Size:
    parts = [tensor.shape for tensor in tensors if tensor.shape != (0,)] or [tensors[0].shape]
    dim = dim % len(parts[0]) if parts[0] else 0
    rest = {(*shape[:dim], *shape[dim + 1 :]) for shape in parts}
    if len(rest) != 1 or len({len(shape) for shape in parts}) != 1 or not parts[0]:
        raise RuntimeError(f"Tensors of shapes {[tuple(shape) for shape in parts]} can't be concatenated along {dim}.")
    sizes = list(parts[0])
    sizes[dim] = sum(shape[dim] for shape in parts)
    return torch.Size(sizes)


def _stack(tensors: Sequence[torch.Tensor], dim: int = 0) -> torch.Size:
    shapes = {tuple(tensor.shape) for tensor in tensors}
    if len(shapes) != 1:
        raise RuntimeError(f"Tensors of shapes {sorted(shapes)} can't be stacked.")
    sizes = list(shapes.pop())
    sizes.insert(dim % (len(sizes) + 1), len(tensors))
    return torch.Size(sizes)


def _where(mask: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Size:
    return arithmetic.broadcast(arithmetic.broadcast(mask.shape, x.shape), y.shape)


def _index(x: torch.Tensor, indices: list[Any]) -> torch.Size:
    # On an expanded scalar: the indices are public, so torch checks them too.
    nothing = torch.zeros((), dtype=torch.int8).expand(x.shape)
    return torch.ops.aten.index.Tensor(nothing, indices).shape  # type: ignore[no-any-return]


def _index_select(x: torch.Tensor, dim: int, index: torch.Tensor) -> torch.Size:
    sizes = list(x.shape)
    if sizes:
        sizes[dim] = index.numel()
    return torch.Size(sizes)


_SAME = """
    cumsum.default neg.default clone.default alias.default detach.default flip.default tril.default triu.default
    roll.default index_put.default scatter_add.default index_add.default lift_fresh.default scatter.src
    index_copy.default select_scatter.default slice_scatter.default diagonal_scatter.default
""".split()
SHAPES: dict[str, Callable[..., Any]] = dict.fromkeys(_SAME, _same) | {
    "sum.default": _none,
    "trace.default": _none,
    "sum.dim_IntList": _sum,
    "cat.default": _cat,
    "stack.default": _stack,
    "where.self": _where,
    "index.Tensor": _index,
    "index_select.default": _index_select,
}


def of_call(name: str, call: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the shape of a call's result, or a list of shapes."""
    rule = SHAPES.get(name)
    if rule is not None:
        return rule(*args, **options)
    key = (name, _signature(args), _signature(tuple(sorted(options.items()))))
    if key not in _cache:
        if len(_cache) >= MAX_CACHED:
            _cache.clear()
        made = call(*map_tensors(lambda leaf: leaf.to("meta"), args), **options)
        _cache[key] = [item.shape for item in made] if isinstance(made, list | tuple) else made.shape
    found = _cache[key]
    return list(found) if type(found) is list else found


def _signature(value: object) -> Any:
    if isinstance(value, torch.Tensor):
        return ("tensor", tuple(value.shape), value.dtype)
    if isinstance(value, tuple | list):
        return tuple([_signature(item) for item in value])
    return (type(value), value)
