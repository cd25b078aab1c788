"""Rules for indexing by public indices and masks, and by private indices; embeddings, embedding bags and one_hot.

A private index is compared with every position, which gives a one-hot row; the product of that row with the elements
selects one. So no party learns the index, and the result is exact. An index out of range gives 0, because an error
would reveal it; negative and fractional indices are out of range. The row is cached with the index, so that the
gradient need not compare again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from syft.core.autograd_state import is_followed
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import UnsupportedOperationError
from syft.mpc.rules import public_scaling
from syft.mpc.rules.arithmetic import mul
from syft.mpc.rules.cached_comparisons import note, recall
from syft.mpc.rules.comparison import bits
from syft.mpc.rules.operands import FixedPointFormat, aten, content, format_of, is_link, reshaped, rule, to_integers
from syft.mpc.rules.types import AnyTensor, Link, Sizes, Value
from syft.mpc.values import ring_ops
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import FixedPrecisionTensor


def refuse_private(operation: object, arguments: object) -> None:
    """Raise if one of some arguments that must be public is a link."""
    if any(is_link(leaf) for leaf in iter_tensors(arguments)):
        raise UnsupportedOperationError(
            f"{operation} with an encrypted index or mask",
            "encrypted tensors",
            "The selected positions would be public; use torch.where, or multiply by the mask.",
        )


# --- public positions ---------------------------------------------------------------------------------------


def add_up(rows: Value, dim: int, index: torch.Tensor, count: int) -> Value:
    """Add up slices along a dimension at public indices below a count."""
    shape = list(ring_ops.shape_of(rows))
    shape[dim] = count
    base, rows = ring_ops.together([torch.zeros(shape, dtype=torch.int64), rows])
    return ring_ops.local(aten.index_add.default, base, dim, index, rows)


def _zero_outside(value: Value, positions: torch.Tensor) -> Value:
    return ring_ops.mul(value, (positions >= 0).long()) if bool((positions < 0).any()) else value


def gather_at(value: Value, positions: torch.Tensor, dims: int) -> Value:
    """Return the elements at flat positions in images of some dimensions, 0 at -1: (images, *positions)."""
    shape = ring_ops.shape_of(value)
    images = math.prod(shape[:-dims])
    rows = ring_ops.reshape(value, [images, math.prod(shape[-dims:])])
    taken = ring_ops.local(aten.index_select.default, rows, 1, positions.clamp(min=0).reshape(-1))
    return _zero_outside(ring_ops.reshape(taken, [images, *positions.shape]), positions)


def add_at(value: Value, positions: torch.Tensor, shape: Sizes, dims: int) -> Value:
    """Add up elements at flat positions in images, and return these in a shape: the adjoint of `gather_at`."""
    images = math.prod(shape[:-dims])
    value = _zero_outside(ring_ops.reshape(value, [images, *positions.shape]), positions)
    rows = ring_ops.reshape(value, [images, positions.numel()])
    added = add_up(rows, 1, positions.clamp(min=0).reshape(-1), math.prod(shape[-dims:]))
    return ring_ops.reshape(added, list(shape))


# --- private indices ----------------------------------------------------------------------------------------


def one_hot(index: Link, count: int) -> Value:
    """Return a one-hot row of `count` integers for each private index."""
    if index.is_bit:
        refuse_private("Indexing", index)
    cached: Value | None = recall(index, "one_hot", count)
    if cached is not None:
        return cached
    fmt = format_of(index)
    last = ring_ops.reshape(content(index), [*index.shape, 1])
    found = ring_ops.zero(ring_ops.sub(last, torch.arange(count) * fmt.scale))
    if is_followed():  # the gradient needs it again
        note(index, "one_hot", found, count)
    return found


def picked(x: AnyTensor, dim: int, index: Link) -> Link:
    """Return the slices of x along a dimension that private indices select; their shape replaces the dimension."""
    fmt = format_of(x) if is_link(x) else format_of(index)
    dim = _dimension(x, dim)
    count = x.shape[dim]
    before, after = list(x.shape[:dim]), list(x.shape[dim + 1 :])
    rows = _first(to_integers(x, fmt), dim, len(x.shape))
    rows = ring_ops.reshape(rows, [count, torch.Size(before + after).numel()])
    hot = ring_ops.reshape(one_hot(index, count), [index.shape.numel(), count])
    made = ring_ops.reshape(ring_ops.product("matmul", hot, rows), [*index.shape, *before, *after])
    width = len(index.shape)
    order = [*range(width, width + dim), *range(width), *range(width + dim, width + dim + len(after))]
    return fmt.link(ring_ops.permute(made, order))


def _dimension(x: AnyTensor, dim: int) -> int:
    """Return a dimension as a number that is not negative."""
    if not x.shape:
        raise UnsupportedOperationError("An encrypted index of a tensor without dimensions", "encrypted tensors")
    if not -len(x.shape) <= dim < len(x.shape):
        raise IndexError(f"Dimension out of range (got {dim}, and there are {len(x.shape)})")
    return dim % len(x.shape)


def _first(value: Value, dim: int, count: int) -> Value:
    """Move a dimension to the front."""
    return ring_ops.permute(value, [dim, *(other for other in range(count) if other != dim)])


def spread(new: AnyTensor, dim: int, index: Link, count: int, fmt: FixedPointFormat) -> Value:
    """Add up slices at private indices: the adjoint of `picked`."""
    shape, width = list(new.shape), len(index.shape)
    before, after = shape[:dim], shape[dim + width :]
    order = [*range(dim, dim + width), *range(dim), *range(dim + width, len(shape))]
    rows = ring_ops.permute(ring_ops.as_tensor(to_integers(new, fmt)), order)
    rows = ring_ops.reshape(rows, [index.shape.numel(), torch.Size(before + after).numel()])
    hot = ring_ops.reshape(one_hot(index, count), [index.shape.numel(), count])
    made = ring_ops.product("matmul", ring_ops.local(aten.transpose.int, hot, 0, 1), rows)
    made = ring_ops.reshape(made, [count, *before, *after])
    return ring_ops.permute(made, [*range(1, dim + 1), 0, *range(dim + 1, dim + 1 + len(after))])


def only_private(indices: Sequence[AnyTensor | None]) -> tuple[int, Link]:
    """Return the dimension and the value of a private index that is the only index."""
    named = [(dim, one) for dim, one in enumerate(indices) if is_link(one)]
    if len(named) != 1 or any(one is not None and not is_link(one) for one in indices):
        raise UnsupportedOperationError(
            "Indexing with an encrypted index and another one", "encrypted tensors", "Use one index after the other."
        )
    return named[0]


@AdditiveSharingTensor.implements(torch.Tensor.__getitem__)
def getitem(x: AnyTensor, key: object) -> Any:
    """Index with a shared scalar, whose value torch would read, as with a shared vector of one element."""
    keys: list[Any] = list(key) if isinstance(key, tuple) else [key]
    numbers = [at for at, one in enumerate(keys) if isinstance(one, AdditiveSharingTensor) and not one.shape]
    others = [one for one in keys if not isinstance(one, slice | int)]
    if not numbers or len(others) > 1:
        return _below(x, key)
    (at,) = numbers
    keys[at] = ring_ops.reshape(keys[at], [1])
    position = sum(isinstance(one, slice) for one in keys[:at])
    return _below(_below(x, tuple(keys)).child, (*[slice(None)] * position, 0))


def _below(x: AnyTensor, key: object) -> Any:
    """Index with torch, without this rule."""
    shells = map_tensors(lambda leaf: leaf.wrap() if is_link(leaf) else leaf, (x, key))
    with torch._C.DisableTorchFunctionSubclass():
        return torch.Tensor.__getitem__(*shells)


# --- public functions ----------------------------------------------------------------------------------------


@rule(aten.index.Tensor, aten._unsafe_index.Tensor, in_place=False)
def index(x: Link, indices: Sequence[AnyTensor | None]) -> Link:
    """Select elements by public indices and masks, or by one private index."""
    if any(is_link(one) for one in indices):
        return picked(x, *only_private(indices))
    return format_of(x).link(ring_ops.local(aten.index.Tensor, content(x), index_tensors(indices)))


def index_tensors(indices: Sequence[AnyTensor | None]) -> list[Any]:
    """Replace public masks by the indices of their true elements, so that shapes do not depend on values."""
    places: list[Any] = []
    for one in indices:
        if one is not None and one.dtype in (torch.bool, torch.uint8):
            places.extend(one.nonzero(as_tuple=True))
        else:
            places.append(one)
    return places


@rule(aten.index_select.default, in_place=False)
def index_select(x: Link, dim: int, indices: AnyTensor) -> Link:
    """Select rows by public or private indices."""
    if is_link(indices):
        return picked(x, dim, indices)
    return format_of(x).link(ring_ops.local(aten.index_select.default, content(x), dim, indices))


@rule(aten.gather.default, in_place=False)
def gather(x: Link, dim: int, indices: AnyTensor, sparse_grad: bool = False) -> Link:
    """Select elements along a dimension by public or private indices."""
    if is_link(indices):
        return _gathered(x, dim, indices)
    return format_of(x).link(ring_ops.local(aten.gather.default, content(x), dim, indices))


def _gathered(x: AnyTensor, dim: int, indices: Link) -> Link:
    """Add up products of one-hot rows with the elements along a dimension."""
    fmt, dim = format_of(x) if is_link(x) else format_of(indices), _dimension(x, dim)
    if len(indices.shape) != len(x.shape):
        raise IndexError("Index tensor must have the same number of dimensions as input tensor")
    value: Value = to_integers(x, fmt)
    for other, size in enumerate(indices.shape):
        if other != dim and size != x.shape[other]:
            value = ring_ops.local(aten.slice.Tensor, value, other, 0, size)
    last = [other for other in range(len(x.shape)) if other != dim]
    rows = ring_ops.local(aten.unsqueeze.default, ring_ops.permute(value, [*last, dim]), dim)
    return fmt.link(ring_ops.total(ring_ops.mul(one_hot(indices, x.shape[dim]), rows), [len(x.shape)]))


# --- embeddings -------------------------------------------------------------------------------------------------------

# torch's codes for the modes of bags.
SUM, MEAN = 0, 1


@rule(aten.embedding.default, in_place=False)
def embedding(weight: Link | torch.Tensor, indices: AnyTensor, *args: object) -> Link:
    """Select rows of a table by public or private indices."""
    if is_link(indices):
        return picked(weight, 0, indices)
    fmt = format_of(weight)
    flat = ring_ops.local(aten.index_select.default, to_integers(weight, fmt), 0, indices.reshape(-1))
    return fmt.link(ring_ops.reshape(flat, [*indices.shape, weight.shape[1]]))


@rule(aten.embedding_dense_backward.default, in_place=False)
def embedding_backward(grad: AnyTensor, indices: AnyTensor, count: int, padding: int, scale_by_freq: bool) -> Link:
    """Gradient of an embedding: rows added up at public or private indices."""
    fmt = format_of(grad) if is_link(grad) else format_of(indices)
    if not is_link(indices):
        return fmt.link(_added_up(grad, indices, count, padding, scale_by_freq, fmt))
    if scale_by_freq:
        raise UnsupportedOperationError(
            "scale_grad_by_freq with encrypted indices",
            "encrypted tensors",
            "The frequency of an encrypted index is private: leave scale_grad_by_freq out.",
        )
    made = spread(grad, 0, indices, count, fmt)
    if 0 <= padding < count:
        made = ring_ops.mul(made, (torch.arange(count) != padding).long().view(-1, 1))
    return fmt.link(made)


def _added_up(
    grad: AnyTensor, indices: torch.Tensor, count: int, padding: int, by_frequency: bool, fmt: FixedPointFormat
) -> Value:
    width = grad.shape[-1]
    rows = ring_ops.reshape(to_integers(grad, fmt), [indices.numel(), width])
    flat = indices.reshape(-1)
    if bool((flat == padding).any()):
        rows = ring_ops.mul(rows, (flat != padding).long().view(-1, 1))
    if by_frequency and flat.numel():
        rows = public_scaling.divide(rows, torch.bincount(flat, minlength=count)[flat].view(-1, 1), fmt)
    return add_up(rows, 0, flat, count)


# --- bags -----------------------------------------------------------------------------------------------------------


@rule(aten._embedding_bag.default, aten._embedding_bag_forward_only.default, in_place=False)
def embedding_bag(
    weight: AnyTensor, indices: AnyTensor, offsets: torch.Tensor, scale_grad_by_freq: bool = False, mode: int = SUM,
    sparse: bool = False, sample_weights: AnyTensor | None = None, include_last_offset: bool = False, padding: int = -1,
) -> tuple[Link, torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Add up, or average, the rows of each bag; the assignment of indices to bags is public."""
    if mode not in (SUM, MEAN):
        raise UnsupportedOperationError("EmbeddingBag(mode='max')", "encrypted tensors", "Use 'sum' or 'mean'.")
    if is_link(indices) and padding >= 0:
        raise UnsupportedOperationError("EmbeddingBag with padding_idx", "encrypted indices", "Leave out padding_idx.")
    starts = offsets[:-1] if include_last_offset else offsets
    count, bags = indices.shape.numel(), starts.numel()
    bag_of = torch.searchsorted(starts.contiguous(), torch.arange(count), right=True) - 1
    taken = torch.ones(count, dtype=torch.bool) if is_link(indices) else indices != padding
    if include_last_offset:  # indices after the last offset are in no bag
        beyond = torch.arange(count) >= offsets[-1]
        taken, bag_of = taken & ~beyond, bag_of.masked_fill(beyond, -1)
    sizes = torch.zeros(bags, dtype=torch.int64).index_add(0, bag_of.clamp(min=0), taken.long())
    rows = embedding(weight, indices)
    if sample_weights is not None:
        rows = mul(rows, reshaped(sample_weights, [-1, 1]))
    fmt = format_of(rows)
    value = content(rows) if bool(taken.all()) else ring_ops.mul(content(rows), taken.long().view(-1, 1))
    summed = add_up(value, 0, bag_of.clamp(min=0), bags)
    if mode == MEAN:
        summed = public_scaling.divide(summed, sizes.clamp(min=1).view(-1, 1), fmt)
    return fmt.link(summed), bag_of, sizes, torch.zeros(0, dtype=torch.int64)


@rule(aten._embedding_bag_backward.default, in_place=False)
def embedding_bag_backward(
    grad: AnyTensor, indices: AnyTensor, offsets: torch.Tensor, bag_of: torch.Tensor, sizes: torch.Tensor,
    places: object, count: int, by_frequency: bool, mode: int, sparse: bool, sample_weights: AnyTensor,
    padding: int = -1,
) -> Link:  # fmt: skip
    """Gradient of bags: each row gets the gradient of its bag."""
    fmt = format_of(grad)
    given = to_integers(grad, fmt)
    if mode == MEAN:
        given = public_scaling.divide(given, sizes.clamp(min=1).view(-1, 1), fmt)
    rows = fmt.link(ring_ops.local(aten.index_select.default, given, 0, bag_of.clamp(min=0)))
    if bool((bag_of < 0).any()):
        rows = mul(rows, (bag_of >= 0).view(-1, 1))
    if sample_weights is not None:
        rows = mul(rows, reshaped(sample_weights, [-1, 1]))
    return embedding_backward(rows, indices, count, padding, by_frequency)


# --- public functions --------------------------------------------------------------------------------------------


@FixedPrecisionTensor.implements(torch.nn.functional.one_hot)
@AdditiveSharingTensor.implements(torch.nn.functional.one_hot)
def one_hot_of(index: Link, num_classes: int = -1) -> Link:
    """Return a one-hot row for each private index; all zeros if it is out of range."""
    if num_classes < 1:
        raise UnsupportedOperationError(
            "one_hot without num_classes", type(index).__name__, "The largest index is private: pass num_classes."
        )
    return bits(one_hot(index, num_classes), format_of(index))
