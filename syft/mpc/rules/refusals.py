"""Refusals: reading private values, and calls without a rule or a decomposition into calls with rules."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from syft.core.dispatch import find_rule, run
from syft.core.providers import providers
from syft.core.tensor import AbstractTensor
from syft.core.trees import map_tensors
from syft.exceptions import UnsupportedOperationError
from syft.mpc.rules.names import public_name
from syft.mpc.rules.operands import aten, rule
from syft.mpc.rules.types import AnyTensor, Link
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import FixedPrecisionTensor

DECRYPT = "Decrypt first: x.get().float_precision()."
HINTS = {
    "sort": "Use max, min or argmax.",
    "median": "Use max, min or mean.",
    "topk": "Use max or argmax.",
    "nonzero": "The size of the result would be public; (x != 0).sum() stays private.",
    "unique_consecutive": "The size of the result would be public.",
    "_unique2": "The size of the result would be public.",
    "fractional_max_pool2d": "Use F.max_pool2d, or F.adaptive_max_pool2d.",
    "fractional_max_pool3d": "Use F.max_pool3d.",
    "_trilinear": "Use torch.einsum('bi,oij,bj->bo', x, weight, y).",
    "multilabel_margin_loss_forward": "Use F.multilabel_soft_margin_loss.",
    "masked_select": "The size of the result would be public; use torch.where, or multiply by the mask.",
}
# Decompositions of these need numbers far outside a fixed-precision format; that of the loss also counts labels behind
# the end of a list.
_NEVER = frozenset({"isclose", "sort", "topk", "median", "multilabel_margin_loss_forward"})


_ONE_NUMBER = tuple(getattr(torch.Tensor, name) for name in ("item", "__bool__", "__float__", "__int__", "__complex__"))
_READING = tuple(getattr(torch.Tensor, name) for name in ("tolist", "numpy", "__index__", "__array__"))


def _read_number(function: Callable[..., Any]) -> Callable[[FixedPrecisionTensor], Any]:
    """Return the rule that reads a fixed-precision tensor of one element, if its numbers are here."""

    def read(x: FixedPrecisionTensor) -> Any:
        if x.is_shared or x.shape.numel() != 1:
            return refuse_number(x)
        return function(x.float_precision())

    return read


for _function in _ONE_NUMBER:
    FixedPrecisionTensor.implements(_function)(_read_number(_function))


@FixedPrecisionTensor.implements(*_READING)
@AdditiveSharingTensor.implements(*_READING, *_ONE_NUMBER)
@rule(aten._local_scalar_dense.default, aten.is_nonzero.default, in_place=False)
def refuse_number(x: AnyTensor, *args: object, **kwargs: object) -> Link:
    """Refuse to read values, whether torch or the user does so."""
    if isinstance(x, FixedPrecisionTensor) and not x.is_shared:
        raise ValueError(
            "Fixed-precision tensors can't be converted to boolean values or Python numbers; "
            "decode first with .float_precision()."
        )
    raise ValueError(
        "Additive shared tensors can't be converted to boolean values or Python numbers; decrypt first with .get(). "
        "(A comparison such as x > y stays private: use torch.where, or multiply by it; a private index needs a "
        "dimension: x[i.view(1)].)"
    )


def _refuse(call: str, hint: str, x: AnyTensor, *args: object, **kwargs: object) -> Any:
    raise UnsupportedOperationError(call, type(x).__name__, hint)


rule(
    aten.transpose_.default, aten.swapaxes_.default, aten.swapdims_.default, aten.t_.default, aten.squeeze_.default,
    aten.squeeze_.dim, aten.squeeze_.dims, aten.unsqueeze_.default, aten.fill_diagonal_.default, aten.pow_.Tensor,
    aten.float_power_.Scalar, aten.float_power_.Tensor, aten.as_strided_.default, aten.resize_.default,
    in_place=False,
)(functools.partial(_refuse, "This in-place form", "Use the form that is not in place: x = x.t()."))  # fmt: skip
rule(
    aten.normal_.default, aten.uniform_.default, aten.random_.default, getattr(aten.random_, "from"), aten.random_.to,
    aten.exponential_.default, aten.log_normal_.default, aten.cauchy_.default, aten.geometric_.default,
    in_place=False,
)(functools.partial(
    _refuse, "Filling with random numbers in place", "Make them plain: x + torch.randn(x.shape)."
))  # fmt: skip


@functools.cache
def _decompositions() -> dict[Any, Any]:
    from torch._decomp import core_aten_decompositions

    return dict(core_aten_decompositions())


def fall_back(
    cls: type[AbstractTensor], function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run a call without a rule by torch's decomposition into calls with rules, or refuse it.

    A decomposition that reads values is refused by the rules for reading.
    """
    if not isinstance(function, torch._ops.OpOverload):
        found = find_rule(cls, function)
        return run(function, args, kwargs) if found is None else found(*args, **kwargs)
    name = function.overloadpacket.__name__
    # Inference mode does not decompose calls that torch composes.
    composition = function.decompose if function._can_decompose() else None
    decomposition = None if name in _NEVER else _decompositions().get(function, composition)
    if decomposition is None:
        raise UnsupportedOperationError(public_name(function), cls.__name__, HINTS.get(name, _default_hint()))
    shell = providers.wrapper
    wrapped = map_tensors(lambda leaf: leaf.wrap() if isinstance(leaf, AbstractTensor) else leaf, (args, kwargs))
    try:
        result = decomposition(*wrapped[0], **wrapped[1])
    except UnsupportedOperationError as error:
        hint = f"It uses {error.operation}. {error.hint}"
        raise UnsupportedOperationError(public_name(function), cls.__name__, hint) from error
    if result is NotImplemented:
        raise UnsupportedOperationError(public_name(function), cls.__name__, _default_hint())
    return map_tensors(lambda leaf: leaf.__dict__["child"] if isinstance(leaf, shell) else leaf, result)


def _default_hint() -> str:
    return (
        "Sums, products, division, comparisons, relu, max, pooling, indexing and shapes work "
        "(docs/reference/operations.md). " + DECRYPT
    )


providers.fallback = fall_back
