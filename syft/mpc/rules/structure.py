"""Rules for calls that only move numbers: shapes, slices, joining, padding, filling."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from syft.exceptions import UnsupportedOperationError
from syft.mpc.rules.cached_comparisons import carry
from syft.mpc.rules.indexing import refuse_private
from syft.mpc.rules.operands import aten, content, format_of, is_link, rule, to_integers
from syft.mpc.rules.types import AnyTensor, Link, Number, Operand, Operation, Sizes, Value
from syft.mpc.values import ring_ops
from syft.tensors.additive_shared import AdditiveSharingTensor

# Results share memory with their argument in torch, so a write to one changes the other.
VIEWS = (
    aten.view.default, aten.permute.default, aten.transpose.int, aten.t.default, aten.squeeze.default,
    aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default, aten.expand.default, aten.slice.Tensor,
    aten.select.int, aten.diagonal.default, aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int,
    aten.unfold.default, aten.alias.default, aten.detach.default,
)  # fmt: skip
# These change nothing (RESHAPES only if the shape stays the same), so they need no message.
ALIASES = frozenset({aten.alias.default, aten.detach.default})
RESHAPES = frozenset({aten.view.default, aten.expand.default})
# Results are new tensors. The calls are linear in the first argument; all others are public.
COPIES = (
    aten._unsafe_view.default, aten.roll.default, aten.flip.default, aten.diag_embed.default, aten.tril.default,
    aten.triu.default, aten.repeat.default, aten.trace.default, aten.rot90.default, aten.select_backward.default,
    aten.unfold_backward.default, aten.slice_backward.default,
)  # fmt: skip


def _plain_options(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Drop options about memory layout and dtype."""
    dropped = ("memory_format", "pin_memory", "layout", "device", "dtype", "non_blocking")
    return {key: value for key, value in kwargs.items() if key not in dropped}


def _copy_of(operation: Operation, x: Link, *args: object, **kwargs: object) -> Link:
    refuse_private(operation, (args, kwargs))
    return format_of(x).link(ring_ops.local(operation, content(x), *args, **_plain_options(kwargs)))


def _view_of(operation: Operation, x: Link, *args: Any, **kwargs: object) -> Any:
    fmt = format_of(x)
    if operation in ALIASES or (operation in RESHAPES and tuple(args[0]) == tuple(x.shape)):
        return carry(fmt.link(_fresh(content(x))), x).view_of(x, lambda below: below, lambda below, new: new)
    made = ring_ops.local_results(operation, content(x), *args, **kwargs)
    if isinstance(made, list | tuple):
        return [_as_view(fmt.link(part), x, operation, args, kwargs, i) for i, part in enumerate(made)]
    return _as_view(fmt.link(_fresh(made)), x, operation, args, kwargs, None)


def _fresh(value: Value) -> Value:
    return value.like(dict(value.child)) if isinstance(value, AdditiveSharingTensor) else value


def _as_view(
    link: Link, x: Link, operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any], part: int | None
) -> Link:
    """Make a result a view of its argument."""
    model = x if isinstance(x, AdditiveSharingTensor) else None
    shape = tuple(x.shape)

    def look(of: Value) -> Any:
        made = ring_ops.local_results(operation, of, *args, **kwargs)
        return made if part is None else made[part]

    def follow(below: Any) -> Any:
        return look(below) if model is None else look(model.like(below)).child

    def write_back(below: Any, new: Any) -> Any:
        positions = look(torch.arange(torch.Size(shape).numel()).view(shape))
        if positions.unique().numel() != positions.numel():
            raise UnsupportedOperationError(
                "Writing to an expanded tensor", type(x).__name__, "Copy it first with .clone()."
            )
        if model is None:
            return ring_ops.put(below, positions, new)
        written: Any = ring_ops.put(model.like(below), positions, model.like(new))
        return written.child

    link.is_bit = x.is_bit
    if link.shape.numel() > torch.Size(shape).numel() and torch._C._current_graph_task_id() != -1:
        return link  # an expanded gradient: autograd accumulates into it
    link.view_of(x, follow, write_back)
    return link


for _operation in VIEWS:
    rule(_operation, in_place=False, views=True)(functools.partial(_view_of, _operation))
for _operation in COPIES:
    rule(_operation)(functools.partial(_copy_of, _operation))


rule(aten._reshape_alias.default, in_place=False, views=True)(
    lambda x, size, stride: _view_of(aten.view.default, x, list(size))
)


@rule(aten.clone.default, aten.lift_fresh.default, in_place=False)
def clone(x: Link, **kwargs: object) -> Link:
    """Copy."""
    return format_of(x).link(ring_ops.local(aten.clone.default, content(x)))


@rule(aten._to_copy.default, aten.to.dtype, in_place=False)
def convert(x: Link, *args: object, dtype: torch.dtype | None = None, **kwargs: object) -> Link:
    """Copy; conversions between float dtypes are accepted, others are refused."""
    if isinstance(x, AdditiveSharingTensor):
        kept, hint = dtype is torch.int64, "Encode before sharing: x.fix_precision().share(...)."
    else:
        kept, hint = dtype is not None and dtype.is_floating_point, "Decrypt first: x.get().float_precision()."
    if dtype is not None and not kept:
        raise UnsupportedOperationError(f"Conversion to {dtype}", type(x).__name__, hint)
    return clone(x)


def _joined(operation: Operation, tensors: Sequence[AnyTensor], dim: int = 0) -> Link:
    """Join along a dimension, or along a new one."""
    fmt = format_of(tensors)
    return fmt.link(ring_ops.local(operation, ring_ops.together([to_integers(t, fmt) for t in tensors]), dim))


for _operation in (aten.cat.default, aten.stack.default):
    rule(_operation, in_place=False)(functools.partial(_joined, _operation))


@rule(aten.constant_pad_nd.default, in_place=False)
def pad(x: Link, sizes: Sizes, value: Number = 0) -> Link:
    """Pad with a number."""
    fmt = format_of(x)
    padded = ring_ops.local(aten.constant_pad_nd.default, content(x), list(sizes))
    if value:
        outside = torch.constant_pad_nd(torch.zeros(tuple(x.shape), dtype=torch.int64), list(sizes), 1)
        padded = ring_ops.add(padded, outside * to_integers(value, fmt))
    return fmt.link(padded)


# --- writing ------------------------------------------------------------------------------------------------


@rule(aten.copy.default, aten.fill.Scalar, aten.fill.Tensor)
def copy(x: Link, source: Operand, non_blocking: bool = False) -> Link:
    """Return the numbers of a source in the shape and, if it is as fine, the format of x."""
    fmt = format_of(x)
    if is_link(source) and format_of(source).scale != fmt.scale:
        fmt = format_of(x, source)
    value = ring_ops.as_tensor(to_integers(source, fmt))
    if fmt.model is None and not ring_ops.is_shared(value):
        value = ring_ops.public(value, content(x))
    return fmt.link(ring_ops.expand(value, tuple(x.shape)))


rule(aten.zero.default)(lambda x: copy(x, 0))


def made_like(x: Link, shape: Sizes, number: Number) -> Link:
    """Return a shape filled with one public number, as a link of the class and format of x."""
    fmt = format_of(x)
    plain = torch.full(tuple(shape), to_integers(number, fmt), dtype=torch.int64)
    return fmt.link(plain if fmt.model is not None else ring_ops.public(plain, content(x)))


@rule(aten.zeros_like.default, aten.empty_like.default, aten.new_zeros.default, aten.new_empty.default,
      aten.new_empty_strided.default, in_place=False)  # fmt: skip
def zeros(x: Link, size: Sizes | None = None, *args: object, **kwargs: object) -> Link:
    """Make zeros like x; uninitialised memory is zero too."""
    return made_like(x, x.shape if size is None else size, 0)


@rule(aten.ones_like.default, aten.new_ones.default, in_place=False)
def ones(x: Link, size: Sizes | None = None, **kwargs: object) -> Link:
    """Make ones like x."""
    return made_like(x, x.shape if size is None else size, 1)


rule(aten.full_like.default, in_place=False)(lambda x, number, **kwargs: made_like(x, x.shape, number))
rule(aten.new_full.default, in_place=False)(lambda x, size, number, **kwargs: made_like(x, size, number))
