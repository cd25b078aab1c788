"""Operands of rules: whole numbers with a scale, whatever they come as, and links for results.

A form says what units whole numbers count: 1/scale. Fixed-precision links have one, shared whole numbers have scale 1.
Of several forms the finest one wins.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

import torch

from syft.core.tensor import Rule
from syft.core.trees import iter_tensors
from syft.exceptions import SyftError, UnsupportedOperation
from syft.mpc.rules.dtypes import with_dtype
from syft.mpc.values import ring_ops
from syft.mpc.values.encoding import encode_number, encode_plain
from syft.mpc.values.ring_ops import Operation as Operation
from syft.mpc.values.ring_ops import Value as Value
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import FixedPrecisionTensor

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Link = FixedPrecisionTensor | AdditiveSharingTensor
# A tensor in a call on encrypted tensors: private (a link) or public.
AnyTensor = Link | torch.Tensor
Number = int | float
# An operand: a tensor, or a public number.
Operand = AnyTensor | Number
# Dimensions as users name them: one, several, or all (None).
Dims = int | Sequence[int] | None
# Sizes, strides and the like: one integer for each dimension, or one for all of them.
Sizes = Sequence[int]
RuleFunction = TypeVar("RuleFunction", bound=Callable[..., Any])
aten = torch.ops.aten


@dataclasses.dataclass(frozen=True, slots=True)
class FixedPointFormat:
    """What whole numbers count: units of 1/scale; `model` is a link of this form, None for whole numbers as such."""

    scale: int
    model: FixedPrecisionTensor | None = None

    @property
    def field(self) -> int:
        """How many whole numbers there are."""
        return 2**62 if self.model is None else self.model.field

    @property
    def base(self) -> int:
        """The base of digits behind the point."""
        return 2 if self.model is None else self.model.base

    def link(self, value: Value) -> Link:
        """Return a link of this form around whole numbers."""
        if self.model is not None:
            return self.model.like(value)
        return cast("AdditiveSharingTensor", value)  # plain integers always have a model


WHOLE = FixedPointFormat(1)


def form_of(*operands: object) -> FixedPointFormat:
    """Return the finest form among operands."""
    finest: FixedPrecisionTensor | None = None
    for leaf in iter_tensors(operands):
        if not isinstance(leaf, FixedPrecisionTensor):
            continue
        if finest is not None and leaf.base != finest.base:
            raise SyftError(
                f"One operand has digits of base {finest.base}, another of base {leaf.base}. "
                "Encode both with the same base: x.fix_precision(base=...)."
            )
        if finest is None or leaf.precision_fractional > finest.precision_fractional:
            finest = leaf
    return WHOLE if finest is None else FixedPointFormat(finest.scale, finest)


def is_link(operand: object) -> TypeIs[Link]:
    """Say whether an operand is a link, so that its values are not to be looked at."""
    return isinstance(operand, FixedPrecisionTensor | AdditiveSharingTensor)


def content(link: Link) -> Value:
    """Return the whole numbers of a link."""
    if isinstance(link, AdditiveSharingTensor):
        return link
    if isinstance(link.child, torch.Tensor) and link.child.is_floating_point():
        raise SyftError("This tensor has a fixed-precision link but is not encoded yet; call .child.fix_precision().")
    value: Value = link.child
    return value


def memo_of(operand: AnyTensor) -> Any:
    """Return what holds the numbers of a link, or of a plain tensor: it is another object when they are others."""
    if isinstance(operand, AdditiveSharingTensor):
        return next(iter(operand.child.values()))
    return operand.__dict__["child"] if isinstance(operand, FixedPrecisionTensor) else operand


@overload
def whole(operand: AnyTensor, form: FixedPointFormat) -> Value: ...
@overload
def whole(operand: Number, form: FixedPointFormat) -> int: ...
def whole(operand: Operand, form: FixedPointFormat) -> Value | int:
    """Return an operand as whole numbers of a form."""
    if isinstance(operand, FixedPrecisionTensor):
        return ring_ops.scale(content(operand), form.scale // operand.scale)
    if isinstance(operand, AdditiveSharingTensor):
        return ring_ops.scale(operand, form.scale)
    if isinstance(operand, torch.Tensor):
        if form.model is None and operand.is_floating_point():
            operand = _whole_floats(operand)
        return encode_plain(operand, form.scale, form.field)
    return whole_number(operand, form)


# Minus infinity, as masks have it, stands for "no part in a softmax", and so does the lowest number of a dtype. It is
# kept as this number: far below what exp makes zero of, and with room for sums.
FLOOR = -(2.0**20)


def lowest(tensor: torch.Tensor) -> torch.Tensor:
    """Say where plain numbers are minus infinity, or as low as only masks are."""
    return tensor < -(2.0**100)


@overload
def floored(operand: torch.Tensor) -> torch.Tensor: ...
@overload
def floored(operand: Operand) -> Operand: ...
def floored(operand: Operand) -> Operand:
    """Return a public operand of a sum or a choice with minus infinity, as masks have it, as a number."""
    if isinstance(operand, torch.Tensor) and operand.is_floating_point():
        low = lowest(operand)
        return operand.masked_fill(low, FLOOR) if bool(low.any()) else operand
    return operand


def whole_number(number: object, form: FixedPointFormat) -> int:
    """Return a Python number as whole numbers of a form."""
    if not isinstance(number, int | float):
        raise UnsupportedOperation(f"An operand of type {type(number).__name__}", "encrypted tensors")
    plain = int(number) if float(number).is_integer() else number
    if form.model is None and not isinstance(plain, int):
        raise not_whole()
    return encode_number(plain, form.scale, form.field)


def _whole_floats(tensor: torch.Tensor) -> torch.Tensor:
    if not torch.equal(tensor, tensor.round()):
        raise not_whole()
    return tensor.to(torch.int64)


def not_whole() -> SyftError:
    """Return what to raise where whole numbers meet others."""
    return SyftError(
        "These shares are of whole numbers, and the other operand is not whole. "
        "Encode before sharing: x.fix_precision().share(...)."
    )


# --- registering ------------------------------------------------------------------------------------------------


def rule(*operations: Operation, in_place: bool = True, views: bool = False) -> Callable[[RuleFunction], RuleFunction]:
    """Register a rule for ATen operations on both kinds of links, and for their in-place forms.

    Args:
        *operations: the operations.
        in_place: whether their in-place forms are made from the rule.
        views: whether results are views of an argument; otherwise they never hold the very numbers of one.
    """

    def register(function: RuleFunction) -> RuleFunction:
        typed = with_dtype(function if views else _independent(function))
        for kind in (FixedPrecisionTensor, AdditiveSharingTensor):
            kind.implements(*operations)(typed)
        if in_place:
            for operation in operations:
                _register_in_place(operation, function if views else _independent(function))
        return function

    return register


def _independent(function: Rule) -> Rule:
    """Copy a result that holds the very numbers of an argument (x * 1), so that fetching one leaves the other."""

    def run(*args: object, **kwargs: object) -> Any:
        result = function(*args, **kwargs)
        if is_link(result) and any(is_link(arg) and content(arg) is content(result) for arg in args):
            return form_of(result).link(ring_ops.local(aten.clone.default, content(result)))
        return result

    return run


def _register_in_place(operation: Operation, function: Rule) -> None:
    namespace, _, name = operation.overloadpacket._qualified_op_name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), f"{name}_", None)
    if packet is not None and operation._overloadname in packet.overloads():
        writes(getattr(packet, operation._overloadname))(function)


def writes(*operations: Operation) -> Callable[[RuleFunction], RuleFunction]:
    """Register a rule for in-place operations on both kinds of links: what it returns is written to its argument."""

    def register(function: RuleFunction) -> RuleFunction:
        def written(target: AnyTensor, *args: object, **kwargs: object) -> Link:
            return write(target, function(target, *args, **kwargs), str(operations[0]))

        for kind in (FixedPrecisionTensor, AdditiveSharingTensor):
            kind.implements(*operations)(written)
        return function

    return register


def write(target: AnyTensor, result: Link, operation: str) -> Link:
    """Let a link hold what a call returned, in place: in its own form, of its own shape."""
    if not is_link(target):
        raise UnsupportedOperation(
            f"{operation} in place on a plain tensor",
            "encrypted tensors",
            "Use the form that is not in place: x = x + y. (In an optimizer: these parameters are public, and their "
            "gradients are private. Encrypt the model too, or decrypt the gradients before the step.)",
        )
    if isinstance(target, AdditiveSharingTensor) and isinstance(result, FixedPrecisionTensor):
        raise UnsupportedOperation(
            f"{operation} in place on whole numbers with a fixed-precision operand",
            "AdditiveSharingTensor",
            "Use the form that is not in place.",
        )
    if tuple(result.shape) != tuple(target.shape):
        raise UnsupportedOperation(f"{operation} in place with another shape", type(target).__name__)
    if isinstance(target, FixedPrecisionTensor):
        written = in_form(result, FixedPointFormat(target.scale, target))
        # What is shared stays shared, also where public numbers are written to it (load_state_dict, zero_).
        if ring_ops.is_shared(target.child) and not ring_ops.is_shared(written) and target.child.is_there:
            written = ring_ops.public(ring_ops.as_tensor(written), target.child)
        target.child = written
    else:
        target.child = result.child
    if type(result) is type(target) and form_of(result).scale == form_of(target).scale:
        target.is_bit, target.facts = result.is_bit, result.facts
    return target


def in_form(link: AnyTensor, form: FixedPointFormat) -> Value:
    """Return the whole numbers of a link in a form that may be coarser."""
    if isinstance(link, FixedPrecisionTensor) and link.scale > form.scale:
        return ring_ops.truncate(link.child, link.scale // form.scale)
    return whole(link, form)
