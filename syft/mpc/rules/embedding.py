"""Rules for embeddings, embedding bags and one_hot.

The table, the indices or both may be private. A private index is compared with every row (see `indexing`); the result
is cached with the index, so that the gradient need not compare again.
"""

from __future__ import annotations

import torch

from syft.exceptions import UnsupportedOperationError
from syft.mpc.rules import public_scaling
from syft.mpc.rules.arithmetic import mul
from syft.mpc.rules.comparison import bits
from syft.mpc.rules.indexing import one_hot, picked, spread
from syft.mpc.rules.operands import FixedPointFormat, aten, content, format_of, is_link, reshaped, rule, to_integers
from syft.mpc.rules.types import AnyTensor, Link, Value
from syft.mpc.values import ring_ops
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import FixedPrecisionTensor

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
    base, rows = ring_ops.together([torch.zeros(count, width, dtype=torch.int64), rows])
    return ring_ops.local(aten.index_add.default, base, 0, flat, rows)


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
    summed = _bagged(content(rows), bag_of, taken, bags)
    if mode == MEAN:
        summed = public_scaling.divide(summed, sizes.clamp(min=1).view(-1, 1), fmt)
    return fmt.link(summed), bag_of, sizes, torch.zeros(0, dtype=torch.int64)


def _bagged(rows: Value, bag_of: torch.Tensor, taken: torch.Tensor, bags: int) -> Value:
    if not bool(taken.all()):
        rows = ring_ops.mul(rows, taken.long().view(-1, 1))
    base, rows = ring_ops.together([torch.zeros(bags, ring_ops.shape_of(rows)[1], dtype=torch.int64), rows])
    return ring_ops.local(aten.index_add.default, base, 0, bag_of.clamp(min=0), rows)


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
