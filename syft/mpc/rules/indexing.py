"""Rules for taking elements: by public indices and masks, and by private indices.

A private index is compared with every place there is, which gives a one where it points and zeros elsewhere; a
product with the elements picks. So nobody learns which one was taken, and it is exact. An index out of range gives 0,
for nobody is to learn that either; a negative one, or one between two places, is out of range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from syft.core.autograd_state import is_followed
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import UnsupportedOperation
from syft.mpc.rules.cached_comparisons import note, recall
from syft.mpc.rules.operands import (
    AnyTensor,
    FixedPointFormat,
    Link,
    Value,
    aten,
    content,
    form_of,
    is_link,
    rule,
    whole,
)
from syft.mpc.values import ring_ops
from syft.tensors.additive_shared import AdditiveSharingTensor


def refuse_private(operation: object, arguments: object) -> None:
    """Raise if a link stands where something public is needed, as an index."""
    if any(is_link(leaf) for leaf in iter_tensors(arguments)):
        raise UnsupportedOperation(
            f"{operation} with an encrypted index or mask",
            "encrypted tensors",
            "Which elements are taken would be public; use torch.where, or multiply by the mask.",
        )


# --- private indices ----------------------------------------------------------------------------------------


def one_hot(index: Link, count: int) -> Value:
    """Return for each private index a row of `count` numbers: 1 where it points, else 0."""
    if index.is_bit:
        refuse_private("Indexing", index)
    known: Value | None = recall(index, "one_hot", count)
    if known is not None:
        return known
    form = form_of(index)
    last = ring_ops.reshape(content(index), [*index.shape, 1])
    found = ring_ops.zero(ring_ops.sub(last, torch.arange(count) * form.scale))
    if is_followed():  # the gradient will ask again
        note(index, "one_hot", found, count)
    return found


def picked(x: AnyTensor, dim: int, index: Link) -> Link:
    """Return the slices of x along a dimension that private indices of any shape point at, in place of it."""
    form = form_of(x) if is_link(x) else form_of(index)
    dim = _dimension(x, dim)
    count = x.shape[dim]
    before, after = list(x.shape[:dim]), list(x.shape[dim + 1 :])
    rows = _first(whole(x, form), dim, len(x.shape))
    rows = ring_ops.reshape(rows, [count, torch.Size(before + after).numel()])
    hot = ring_ops.reshape(one_hot(index, count), [index.shape.numel(), count])
    made = ring_ops.reshape(ring_ops.product("matmul", hot, rows), [*index.shape, *before, *after])
    width = len(index.shape)
    order = [*range(width, width + dim), *range(width), *range(width + dim, width + dim + len(after))]
    return form.link(ring_ops.permute(made, order))


def _dimension(x: AnyTensor, dim: int) -> int:
    """Return a dimension as a number that is not negative."""
    if not x.shape:
        raise UnsupportedOperation("An encrypted index of a tensor without dimensions", "encrypted tensors")
    if not -len(x.shape) <= dim < len(x.shape):
        raise IndexError(f"Dimension out of range (got {dim}, and there are {len(x.shape)})")
    return dim % len(x.shape)


def _first(value: Value, dim: int, count: int) -> Value:
    """Move a dimension to the front."""
    return ring_ops.permute(value, [dim, *(other for other in range(count) if other != dim)])


def spread(new: AnyTensor, dim: int, index: Link, count: int, form: FixedPointFormat) -> Value:
    """Add up slices at the places that private indices point at: what `picked` is the reverse of."""
    shape, width = list(new.shape), len(index.shape)
    before, after = shape[:dim], shape[dim + width :]
    order = [*range(dim, dim + width), *range(dim), *range(dim + width, len(shape))]
    rows = ring_ops.permute(ring_ops.as_tensor(whole(new, form)), order)
    rows = ring_ops.reshape(rows, [index.shape.numel(), torch.Size(before + after).numel()])
    hot = ring_ops.reshape(one_hot(index, count), [index.shape.numel(), count])
    made = ring_ops.product("matmul", ring_ops.local(aten.transpose.int, hot, 0, 1), rows)
    made = ring_ops.reshape(made, [count, *before, *after])
    return ring_ops.permute(made, [*range(1, dim + 1), 0, *range(dim + 1, dim + 1 + len(after))])


def only_private(indices: Sequence[AnyTensor | None]) -> tuple[int, Link]:
    """Return the dimension and the one private index among indices that name nothing else."""
    named = [(dim, one) for dim, one in enumerate(indices) if is_link(one)]
    if len(named) != 1 or any(one is not None and not is_link(one) for one in indices):
        raise UnsupportedOperation(
            "Indexing with an encrypted index and another one", "encrypted tensors", "Index with one after the other."
        )
    return named[0]


@AdditiveSharingTensor.implements(torch.Tensor.__getitem__)
def getitem(x: AnyTensor, key: object) -> Any:
    """Index whole numbers, or a plain tensor by them: torch would read an index without dimensions by itself."""
    keys: list[Any] = list(key) if isinstance(key, tuple) else [key]
    numbers = [at for at, one in enumerate(keys) if isinstance(one, AdditiveSharingTensor) and not one.shape]
    others = [one for one in keys if not isinstance(one, slice | int)]
    if not numbers or len(others) > 1:
        return _below(x, key)
    (at,) = numbers
    keys[at] = ring_ops.reshape(keys[at], [1])
    place = sum(isinstance(one, slice) for one in keys[:at])
    return _below(_below(x, tuple(keys)).child, (*[slice(None)] * place, 0))


def _below(x: AnyTensor, key: object) -> Any:
    """Index as torch does, below this rule."""
    shells = map_tensors(lambda leaf: leaf.wrap() if is_link(leaf) else leaf, (x, key))
    with torch._C.DisableTorchFunctionSubclass():
        return torch.Tensor.__getitem__(*shells)


# --- what users call ----------------------------------------------------------------------------------------


@rule(aten.index.Tensor, aten._unsafe_index.Tensor, in_place=False)
def index(x: Link, indices: Sequence[AnyTensor | None]) -> Link:
    """Take elements by public indices and masks, or by one private index."""
    if any(is_link(one) for one in indices):
        return picked(x, *only_private(indices))
    return form_of(x).link(ring_ops.local(aten.index.Tensor, content(x), places_of(indices)))


def places_of(indices: Sequence[AnyTensor | None]) -> list[Any]:
    """Replace public masks by the places where they hold, so that shapes are known without values."""
    places: list[Any] = []
    for one in indices:
        if one is not None and one.dtype in (torch.bool, torch.uint8):
            places.extend(one.nonzero(as_tuple=True))
        else:
            places.append(one)
    return places


@rule(aten.index_select.default, in_place=False)
def index_select(x: Link, dim: int, indices: AnyTensor) -> Link:
    """Take rows by public or private indices."""
    if is_link(indices):
        return picked(x, dim, indices)
    return form_of(x).link(ring_ops.local(aten.index_select.default, content(x), dim, indices))


@rule(aten.gather.default, in_place=False)
def gather(x: Link, dim: int, indices: AnyTensor, sparse_grad: bool = False) -> Link:
    """Take elements along a dimension by public or private indices."""
    if is_link(indices):
        return _gathered(x, dim, indices)
    return form_of(x).link(ring_ops.local(aten.gather.default, content(x), dim, indices))


def _gathered(x: AnyTensor, dim: int, indices: Link) -> Link:
    """Multiply ones where indices point by the elements along a dimension, and add up."""
    form, dim = form_of(x) if is_link(x) else form_of(indices), _dimension(x, dim)
    if len(indices.shape) != len(x.shape):
        raise IndexError("Index tensor must have the same number of dimensions as input tensor")
    value: Value = whole(x, form)
    for other, size in enumerate(indices.shape):
        if other != dim and size != x.shape[other]:
            value = ring_ops.local(aten.slice.Tensor, value, other, 0, size)
    last = [other for other in range(len(x.shape)) if other != dim]
    rows = ring_ops.local(aten.unsqueeze.default, ring_ops.permute(value, [*last, dim]), dim)
    return form.link(ring_ops.total(ring_ops.mul(one_hot(indices, x.shape[dim]), rows), [len(x.shape)]))
