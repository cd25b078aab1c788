"""Local calls: each party runs a linear call on its own shares, without communication.

The table is closed. A call that is not linear gives wrong results on shares, and one that reads values makes no sense
on them, so neither is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from syft.exceptions import ProtocolError, UnsupportedOperationError
from syft.mpc.runtime import result_shapes
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.protocol_registry import protocol

aten = torch.ops.aten

# Linear in all their tensor arguments that are shared; index tensors and masks are public.
_LINEAR = """
    view.default _unsafe_view.default reshape.default permute.default transpose.int t.default squeeze.default
    squeeze.dim squeeze.dims unsqueeze.default expand.default slice.Tensor select.int cat.default stack.default
    split.Tensor split_with_sizes.default unbind.int roll.default flip.default diagonal.default diag_embed.default
    tril.default triu.default repeat.default index.Tensor index_select.default gather.default sum.default
    sum.dim_IntList cumsum.default neg.default clone.default alias.default detach.default unfold.default
    select_scatter.default slice_scatter.default diagonal_scatter.default index_put.default scatter_add.default
    index_add.default trace.default rot90.default where.self unfold_backward.default
    select_backward.default slice_backward.default constant_pad_nd.default lift_fresh.default
    scatter.src index_copy.default
""".split()


def _overload(name: str) -> Any:
    packet, overload = name.split(".")
    return getattr(getattr(aten, packet), overload)


LOCAL: dict[str, Any] = {name: _overload(name) for name in _LINEAR}


def _check_unfold_backward(grad: torch.Tensor, sizes: Sequence[int], dim: int, size: int, step: int) -> None:
    """Refuse windows of wrong shapes: torch itself would read beyond the gradient."""
    fits = all(type(value) is int for value in (*sizes, dim, size, step)) and -len(sizes) <= dim < len(sizes)
    if fits and size > 0 and step > 0 and sizes[dim] >= size:
        expected = list(sizes)
        expected[dim] = (sizes[dim] - size) // step + 1
        if list(grad.shape) == [*expected, size]:
            return
    raise ProtocolError("unfold_backward: the gradient does not have the shape of the windows.")


# Checks of arguments that torch does not do itself.
CHECKS: dict[str, Any] = {"unfold_backward.default": _check_unfold_backward}


def _shape(*args: object, call: str, **options: object) -> Any:
    return result_shapes.of_call(call, _call(call), args, options)


def _call(name: str) -> Any:
    if type(name) is not str or name not in LOCAL:
        raise UnsupportedOperationError(str(name)[:60], "the shares of a tensor", "It is not linear in their values.")
    return LOCAL[name]


@protocol("local", shape=_shape, deals=False)
async def local(party: Party, *args: object, call: str, **options: object) -> Any:
    """Run a linear call of the table on this party's shares."""
    function = _call(call)
    if call in CHECKS:
        CHECKS[call](*args, **options)
    made = function(*args, **options)
    if isinstance(made, list | tuple):
        return tuple([item.clone() for item in made])
    return made
