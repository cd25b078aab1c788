"""The expected result of an encrypted operation, computed in float64.

Most operations are the same ATen call on plain tensors. A table has the exceptions: random operations repeat the random
choice, and of several equally correct indices any is accepted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from syft.core.trees import map_tensors
from syft.mpc.rules.operands import FLOOR, is_link, with_finite_mask
from syft.mpc.rules.types import Link, Operation
from syft.mpc.values.encoding import bound
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import FixedPrecisionTensor

aten = torch.ops.aten
# A function of plain arguments, keyword arguments and the decrypted result; it returns the expected result.
Meant = Callable[[tuple[Any, ...], dict[str, Any], Any], Any]
MEANT: dict[str, Meant] = {}
# Operations without an expected result: random numbers and uninitialised memory.
UNKNOWN = frozenset(
    "bernoulli bernoulli_ rand_like randn_like randint_like normal normal_ uniform_ random_ empty_like new_empty "
    "new_empty_strided empty_strided multinomial dropout".split()
)
# Products of two encrypted operands have twice the digits before they are rescaled.
PRODUCTS = frozenset(
    "mul mul_ mm bmm mv dot vdot addmm addmv addbmm baddbmm addr convolution square square_ pow pow_ addcmul addcmul_ "
    "matmul".split()
)


def scale_of(link: Link) -> int:
    """Return the scale of a link."""
    return link.scale if isinstance(link, FixedPrecisionTensor) else 1


def room_of(link: Link) -> float:
    """Return the bound of the values of a link."""
    return bound(link.field) / link.scale if isinstance(link, FixedPrecisionTensor) else 2.0**62


def reveal(link: Link) -> torch.Tensor:
    """Decrypt a copy: float64 for fixed precision, int64 for whole numbers."""
    below = link.child if isinstance(link, FixedPrecisionTensor) else link
    whole: torch.Tensor = below.copy().get() if isinstance(below, AdditiveSharingTensor) else below.detach().clone()
    return whole.double() / link.scale if isinstance(link, FixedPrecisionTensor) else whole


def in_double(leaf: object) -> object:
    """Return a plain argument in float64, with minus infinity as it is encoded."""
    if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
        return with_finite_mask(leaf.detach().double())
    return leaf


def _in_doubles(args: Any) -> Any:
    """Replace float dtypes in arguments by float64."""
    if isinstance(args, torch.dtype):
        return torch.float64 if args.is_floating_point else args
    if type(args) in (tuple, list):
        return type(args)(map(_in_doubles, args))
    return {name: _in_doubles(value) for name, value in args.items()} if type(args) is dict else args


def compute(function: Operation, args: tuple[Any, ...], kwargs: dict[str, Any], found: object) -> Any:
    """Return the expected result of an operation on plain arguments, given its decrypted result."""
    args, kwargs = _in_doubles(_typed(function, args)), _in_doubles(kwargs)
    if function.overloadpacket.__name__ in _MASKING:
        args = tuple(FLOOR if type(arg) is float and arg == -math.inf else arg for arg in args)
    meant = MEANT.get(function.overloadpacket.__name__)
    with torch.no_grad():
        if meant is not None:
            return meant(args, kwargs, found)
        # A tensor that is contiguous for the user may not be contiguous here.
        made = _RESHAPES.get(function, function)(*args, **kwargs)
    return map_tensors(lambda leaf: leaf.double() if leaf.dtype is torch.bool else leaf, made)


_MASKING = frozenset({"masked_fill", "masked_fill_", "where", "fill", "fill_", "full_like", "new_full"})
# Encrypted masks and indices are numbers; torch requires these dtypes.
_TYPES = {"condition": torch.bool, "mask": torch.bool, "index": torch.int64, "indices": torch.int64}


def _typed(function: Operation, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Convert arguments to the dtypes that torch requires: masks and indices by name, and all of bitwise calls."""
    bitwise = function.overloadpacket.__name__.startswith("bitwise_")

    def typed(name: str, value: object) -> Any:
        dtype = torch.bool if bitwise else _TYPES.get(name)
        if dtype is None:
            return value
        return map_tensors(lambda leaf: leaf.to(dtype) if leaf.is_floating_point() else leaf, value)

    names = [argument.name for argument in function._schema.arguments]
    return tuple(typed(name, value) for name, value in zip(names, args, strict=False))


_RESHAPES: dict[Operation, Operation] = {
    aten.view.default: aten.reshape.default,
    aten._unsafe_view.default: aten.reshape.default,
}


def pairs(found: object, meant: object) -> Iterator[tuple[Link, torch.Tensor | None]]:
    """Yield the links of a result with their expected values; None if there is no expected value."""
    if is_link(found):
        yield found, meant if isinstance(meant, torch.Tensor) else None
    elif isinstance(found, tuple | list) and type(found) in (tuple, list):
        others = meant if isinstance(meant, tuple | list) and len(meant) == len(found) else [None] * len(found)
        for one, other in zip(found, others, strict=True):
            yield from pairs(one, other)


def plain(args: object, known: Callable[[Link], torch.Tensor]) -> Any:
    """Return arguments with plain tensors in place of links."""

    def leaf(value: object) -> object:
        return known(value) if is_link(value) else in_double(value)

    return map_tensors(leaf, args)


# --- operations that differ from the call on plain tensors -----------------------------------------------------


def _dropout(args: tuple[Any, ...], kwargs: dict[str, Any], found: Sequence[torch.Tensor]) -> Any:
    """Repeat the mask of the encrypted dropout."""
    x, p, train = (*args, *kwargs.values(), True)[:3]
    if not train or p == 0:
        return x, None
    kept = found[1].double()
    return x * kept / (1 - p) if p < 1 else x * 0, kept


def _pooled(operation: Operation) -> Meant:
    """Compare the values of a pooling, not its indices, which are of another class."""

    def meant(args: tuple[Any, ...], kwargs: dict[str, Any], found: Any) -> Any:
        return operation(*args, **kwargs)[0], None

    return meant


def _unpooled(operation: Operation, pool: Operation) -> Meant:
    """Send a gradient to the maxima of a pooling in float64."""

    def meant(args: tuple[Any, ...], kwargs: dict[str, Any], found: Any) -> Any:
        grad, x, *sizes, _ = args
        return operation(grad, x, *sizes, pool(x, *sizes)[1])

    return meant


def _place(operation: Operation, sign: int) -> Meant:
    """Accept an index if its element is as large as the largest."""

    def meant(args: tuple[Any, ...], kwargs: dict[str, Any], found: Any) -> Any:
        right = operation(*args, **kwargs)
        x, dim, keepdim = (
            (*args, *kwargs.values(), None, False)[:3] if len(args) > 1 or kwargs else (*args, None, False)
        )
        return _accept(x * sign, found, right, dim, bool(keepdim))

    return meant


def _accept(x: torch.Tensor, found: torch.Tensor, right: torch.Tensor, dim: int | None, keepdim: bool) -> torch.Tensor:
    """Return found indices where their elements are as large as at the right ones, and the right ones elsewhere."""
    given = found.long()
    if dim is None:
        x, dim, given, right = x.reshape(-1), 0, given.reshape(1), right.reshape(1)
        keepdim, shape = True, found.shape
    else:
        shape = right.shape
    if not keepdim:
        given, right = given.unsqueeze(dim), right.unsqueeze(dim)
    valid = (given >= 0) & (given < x.shape[dim])
    at = x.gather(dim, given.clamp(0, x.shape[dim] - 1))
    return torch.where(valid & (at >= x.gather(dim, right)), given, right).reshape(shape)


MEANT |= {
    "native_dropout": _dropout,
    "argmax": _place(aten.argmax.default, 1),
    "argmin": _place(aten.argmin.default, -1),
    "max_pool2d_with_indices": _pooled(aten.max_pool2d_with_indices.default),
    "max_pool3d_with_indices": _pooled(aten.max_pool3d_with_indices.default),
    "adaptive_max_pool2d": _pooled(aten.adaptive_max_pool2d.default),
    "max_pool2d_with_indices_backward": _unpooled(
        aten.max_pool2d_with_indices_backward.default, aten.max_pool2d_with_indices.default
    ),
}
