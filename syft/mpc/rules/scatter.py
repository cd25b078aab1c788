"""Rules for writing and adding elements at public indices, and at private ones as gradients need it.

If a public index occurs several times, the last value is written. The client ensures that: torch may choose
differently at each party, and then the shares would not match.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch

from syft.exceptions import UnsupportedOperationError
from syft.mpc.rules.arithmetic import add
from syft.mpc.rules.comparison import eq, where
from syft.mpc.rules.indexing import index_tensors, one_hot, only_private, refuse_private, spread
from syft.mpc.rules.operands import aten, format_of, is_link, rule, to_integers
from syft.mpc.rules.types import AnyTensor, Link, Operand, Operation, Value
from syft.mpc.values import ring_ops

# Linear in all links among their arguments, which are converted to one format.
JOINS = (aten.select_scatter.default, aten.slice_scatter.default, aten.diagonal_scatter.default)


def write_into(x: AnyTensor, new: AnyTensor, write: Callable[[Value, Value], Value]) -> Link:
    """Run a call that writes new values into x, both in one format, and both shared if one of them is."""
    fmt = format_of(x, new)
    base, value = ring_ops.together([to_integers(x, fmt), to_integers(new, fmt)])
    return fmt.link(write(base, value))


def _positions(x: AnyTensor) -> torch.Tensor:
    """Return the flat positions of the elements of x, in its shape."""
    return torch.arange(torch.Size(x.shape).numel()).view(tuple(x.shape))


def _written(base: Value, places: torch.Tensor, new: Value) -> Value:
    """Write at flat public positions; of several values for one position the last one."""
    flat, steps = places.reshape(-1), torch.arange(places.numel())
    last = torch.full((ring_ops.shape_of(base).numel(),), -1).scatter_reduce(0, flat, steps, "amax")
    taken = last >= 0
    if int(taken.sum()) == flat.numel():
        return ring_ops.put(base, places, new)
    rows = ring_ops.pick(ring_ops.expand(new, places.shape), last[taken])
    return ring_ops.put(base, taken.nonzero().view(-1), rows)


@rule(aten.index_put.default, aten._unsafe_index_put.default, aten._index_put_impl.default)
def index_put(
    x: AnyTensor, indices: Sequence[AnyTensor | None], new: AnyTensor, accumulate: bool = False, unsafe: bool = False
) -> Link:
    """Write at public indices; add at public indices, or at one private index."""
    if any(is_link(one) for one in indices):
        return _added(x, indices, new, accumulate)
    places = index_tensors(indices)
    if accumulate:
        return write_into(x, new, lambda base, value: ring_ops.local(aten.index_put.default, base, places, value, True))
    at = aten.index.Tensor(_positions(x), places)
    return write_into(x, new, lambda base, value: _written(base, at, value))


def _added(x: AnyTensor, indices: Sequence[AnyTensor | None], new: AnyTensor, accumulate: bool) -> Link:
    if not accumulate:
        refuse_private("Writing", indices)
    fmt = format_of(x, new)
    dim, index = only_private(indices)
    return fmt.link(ring_ops.add(to_integers(x, fmt), spread(new, dim, index, x.shape[dim], fmt)))


@rule(aten.index_add.default)
def index_add(x: AnyTensor, dim: int, indices: AnyTensor, new: AnyTensor, alpha: int = 1) -> Link:
    """Add rows at public or private indices."""
    if alpha != 1:
        raise UnsupportedOperationError("index_add with alpha", type(x).__name__, "Multiply the rows first.")
    if is_link(indices):
        return _added(x, [None] * (dim % len(x.shape)) + [indices], new, True)
    return write_into(x, new, lambda base, value: ring_ops.local(aten.index_add.default, base, dim, indices, value))


@rule(aten.index_copy.default)
def index_copy(x: AnyTensor, dim: int, indices: torch.Tensor, new: AnyTensor) -> Link:
    """Write rows at public indices."""
    refuse_private("index_copy", indices)
    at = _positions(x).index_select(dim, indices)
    if tuple(new.shape) != tuple(at.shape):
        raise ValueError(f"index_copy: the source has shape {tuple(new.shape)}, expected {tuple(at.shape)}.")
    return write_into(x, new, lambda base, value: _written(base, at, value))


@rule(aten.put.default)
def put(x: AnyTensor, indices: torch.Tensor, new: AnyTensor, accumulate: bool = False) -> Link:
    """Write or add at flat public positions."""
    refuse_private("put", indices)
    count = torch.Size(x.shape).numel()
    at = torch.arange(count)[indices.reshape(-1)]

    def write(base: Value, value: Value) -> Value:
        value = ring_ops.reshape(value, [at.numel()])
        if not accumulate:
            return _written(base, at, value)
        added = ring_ops.local(aten.index_put.default, ring_ops.reshape(base, [count]), [at], value, True)
        return ring_ops.reshape(added, tuple(x.shape))

    return write_into(x, new, write)


@rule(aten.scatter_add.default)
def scatter_add(x: AnyTensor, dim: int, indices: AnyTensor, new: AnyTensor) -> Link:
    """Add elements at public or private indices along a dimension."""
    if is_link(indices):
        return _scatter_added(x, dim, indices, new)
    return write_into(x, new, lambda base, value: ring_ops.local(aten.scatter_add.default, base, dim, indices, value))


def _scatter_added(x: AnyTensor, dim: int, indices: Link, new: AnyTensor) -> Link:
    """Sum products of new values with one-hot rows of private indices."""
    fmt = format_of(new) if is_link(new) else format_of(x) if is_link(x) else format_of(indices)
    dim = dim % len(x.shape)
    used = [min(size, wide) for size, wide in zip(new.shape, indices.shape, strict=True)]
    value = ring_ops.as_tensor(to_integers(new, fmt))
    for other, size in enumerate(used):
        if size != new.shape[other]:
            value = ring_ops.local(aten.slice.Tensor, value, other, 0, size)
    hot = ring_ops.mul(one_hot(indices, x.shape[dim]), ring_ops.local(aten.unsqueeze.default, value, len(x.shape)))
    rows = ring_ops.total(hot, [dim])
    order = [*range(dim), len(x.shape) - 1, *range(dim, len(x.shape) - 1)]
    added = ring_ops.permute(rows, order)
    sizes: list[int] = []
    for other in reversed(range(len(x.shape))):
        sizes += [0, x.shape[other] - ring_ops.shape_of(added)[other]]
    if any(sizes):
        added = ring_ops.local(aten.constant_pad_nd.default, added, sizes)
    return add(x, fmt.link(added))


@rule(aten.scatter.src, aten.scatter.value)
def scatter(x: AnyTensor, dim: int, index: AnyTensor, source: Operand) -> Link:
    """Write along a dimension at public indices, or at one private index per row, as the gradient of max does."""
    if not is_link(index):
        return _scattered(x, dim, index, source)
    rows = [size for other, size in enumerate(x.shape) if other != dim % len(x.shape)]
    if list(index.shape) != [*rows[: dim % len(x.shape)], 1, *rows[dim % len(x.shape) :]]:
        raise UnsupportedOperationError(
            "scatter with other than one encrypted index for each row", "encrypted tensors", "Use torch.where."
        )
    sizes = [1] * len(x.shape)
    sizes[dim] = x.shape[dim]
    return where(eq(index, torch.arange(x.shape[dim]).view(sizes)), source, x)


def _scattered(x: AnyTensor, dim: int, index: torch.Tensor, source: Operand) -> Link:
    at = _positions(x).gather(dim, index)
    if not is_link(source) and not isinstance(source, torch.Tensor):
        source = torch.tensor(source)
    used = [slice(0, size) for size in index.shape]

    def write(base: Value, value: Value) -> Value:
        if ring_ops.shape_of(value) and ring_ops.shape_of(value) != at.shape:
            value = ring_ops.pick(value, _positions(value)[tuple(used)])
        return _written(base, at, value)

    return write_into(x, source, write)


def _scatter_join(operation: Operation, x: AnyTensor, new: AnyTensor, *args: object, **kwargs: object) -> Link:
    return write_into(x, new, lambda base, value: ring_ops.local(operation, base, value, *args, **kwargs))


for _operation in JOINS:
    rule(_operation, in_place=False)(functools.partial(_scatter_join, _operation))
