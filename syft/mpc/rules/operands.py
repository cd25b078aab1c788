"""Operands of rules: whole numbers with a scale, whatever they come as, and links for results.

A form says what units whole numbers count: 1/scale. Fixed-precision links have one, shared whole numbers have scale 1.
Of several forms the finest one wins. Public floats that multiply get at least 20 significant bits of their own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from syft.core.tensor import Rule
from syft.core.trees import iter_tensors
from syft.exceptions import SyftError, UnsupportedOperation
from syft.mpc import values
from syft.mpc.encoding import bound, encode_number, encode_plain
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import FixedPrecisionTensor

Value = Any
Link = FixedPrecisionTensor | AdditiveSharingTensor
# How many bits a public factor has at least.
PUBLIC_BITS = 20
aten = torch.ops.aten


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
    """What whole numbers count: units of 1/scale; `model` is a link of this form, None for whole numbers as such."""

    scale: int
    model: FixedPrecisionTensor | None = None

    @property
    def field(self) -> int:
        """How many whole numbers there are."""
        return 2**62 if self.model is None else self.model.field

    def link(self, value: Value) -> Any:
        """Return a link of this form around whole numbers."""
        return value if self.model is None else self.model.like(value)


WHOLE = Form(1)


def form_of(*operands: Any) -> Form:
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
    return WHOLE if finest is None else Form(finest.scale, finest)


def is_link(operand: Any) -> bool:
    """Say whether an operand is a link, so that its values are not to be looked at."""
    return isinstance(operand, FixedPrecisionTensor | AdditiveSharingTensor)


def content(link: Link) -> Value:
    """Return the whole numbers of a link."""
    if isinstance(link, AdditiveSharingTensor):
        return link
    if isinstance(link.child, torch.Tensor) and link.child.is_floating_point():
        raise SyftError("This tensor has a fixed-precision link but is not encoded yet; call .child.fix_precision().")
    return link.child


def whole(operand: Any, form: Form) -> Value:
    """Return an operand as whole numbers of a form."""
    if isinstance(operand, FixedPrecisionTensor):
        return values.scale(content(operand), form.scale // operand.scale)
    if isinstance(operand, AdditiveSharingTensor):
        return values.scale(operand, form.scale)
    if isinstance(operand, torch.Tensor):
        if form.model is None and operand.is_floating_point():
            operand = _whole_floats(operand)
        return encode_plain(operand, form.scale, form.field)
    return whole_number(operand, form)


def whole_number(number: Any, form: Form) -> int:
    """Return a Python number as whole numbers of a form."""
    if not isinstance(number, int | float):
        raise UnsupportedOperation(f"An operand of type {type(number).__name__}", "encrypted tensors")
    plain = int(number) if float(number).is_integer() else number
    if form.model is None and not isinstance(plain, int):
        raise _not_whole()
    return encode_number(plain, form.scale, form.field)


def _whole_floats(tensor: torch.Tensor) -> torch.Tensor:
    if not torch.equal(tensor, tensor.round()):
        raise _not_whole()
    return tensor.to(torch.int64)


def _not_whole() -> SyftError:
    return SyftError(
        "These shares are of whole numbers, and the other operand is not whole. "
        "Encode before sharing: x.fix_precision().share(...)."
    )


@dataclasses.dataclass(slots=True)
class Factor:
    """An operand of a product: whole numbers that count units of 1/scale."""

    value: Value
    scale: int


def factor(operand: Any, form: Form) -> Factor:
    """Return an operand of a product; public ones that are whole need no scale."""
    if isinstance(operand, FixedPrecisionTensor):
        return Factor(content(operand), operand.scale)
    if isinstance(operand, AdditiveSharingTensor):
        return Factor(operand, 1)
    if isinstance(operand, torch.Tensor):
        return _tensor_factor(operand, form)
    if float(operand).is_integer() and abs(operand) < 2**40:
        return Factor(int(operand), 1)
    if form.model is None:
        raise _not_whole()
    scale = _public_scale(form, abs(float(operand)))
    return Factor(encode_number(float(operand), scale, form.field), scale)


def _tensor_factor(tensor: torch.Tensor, form: Form) -> Factor:
    if not tensor.is_floating_point():
        return Factor(encode_plain(tensor, 1, form.field), 1)
    most = float(tensor.abs().max()) if tensor.numel() else 0.0
    if most < 2**PUBLIC_BITS and torch.equal(tensor, tensor.round()):
        return Factor(tensor.to(torch.int64), 1)
    if form.model is None:
        raise _not_whole()
    scale = _public_scale(form, most)
    return Factor(encode_plain(tensor, scale, form.field), scale)


def _public_scale(form: Form, most: float) -> int:
    """Return the scale for a public factor: that of the form, or finer if its numbers are small."""
    base = 2 if form.model is None else form.model.base
    scale = form.scale
    while scale * max(most, 2.0**-PUBLIC_BITS) < 2**PUBLIC_BITS and scale < bound(form.field) // 2**22:
        scale *= base
    return scale


def product(operation: str, x: Any, y: Any, form: Form | None = None, **options: Any) -> Value:
    """Multiply two operands; returns whole numbers of the finest form among them, or of the one given."""
    form = form or form_of(x, y)
    left, right = factor(x, form), factor(y, form)
    return values.product(operation, left.value, right.value, left.scale * right.scale // form.scale, **options)


def times(value: Value, number: Any, form: Form) -> Value:
    """Multiply whole numbers of a form by a public number or tensor."""
    other = factor(number, form)
    return values.mul(value, other.value, other.scale)


# --- registering ------------------------------------------------------------------------------------------------


def rule(*operations: Any, in_place: bool = True, views: bool = False) -> Callable[[Rule], Rule]:
    """Register a rule for ATen operations on both kinds of links, and for their in-place forms.

    Args:
        *operations: the operations.
        in_place: whether their in-place forms are made from the rule.
        views: whether results are views of an argument; otherwise they never hold the very numbers of one.
    """

    def register(function: Rule) -> Rule:
        for kind in (FixedPrecisionTensor, AdditiveSharingTensor):
            kind.implements(*operations)(function if views else _independent(function))
        if in_place:
            for operation in operations:
                _register_in_place(operation, function)
        return function

    return register


def _independent(function: Rule) -> Rule:
    """Copy a result that holds the very numbers of an argument (x * 1), so that fetching one leaves the other."""

    def run(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if is_link(result) and any(is_link(arg) and content(arg) is content(result) for arg in args):
            return form_of(result).link(values.local(aten.clone.default, content(result)))
        return result

    return run


def _register_in_place(operation: Any, function: Rule) -> None:
    namespace, _, name = operation.overloadpacket._qualified_op_name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), f"{name}_", None)
    if packet is None or operation._overloadname not in packet.overloads():
        return

    def written(target: Any, *args: Any, **kwargs: Any) -> Any:
        return write(target, function(target, *args, **kwargs), str(operation))

    for kind in (FixedPrecisionTensor, AdditiveSharingTensor):
        kind.implements(getattr(packet, operation._overloadname))(written)


def write(target: Any, result: Any, operation: str) -> Any:
    """Let a link hold what a call returned, in place: in its own form, of its own shape."""
    if not is_link(target):
        raise UnsupportedOperation(
            f"{operation} in place on a plain tensor",
            "encrypted tensors",
            "Use the form that is not in place: x = x + y.",
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
        target.child = in_form(result, Form(target.scale, target))
    else:
        target.child = result.child
    return target


def in_form(link: Any, form: Form) -> Value:
    """Return the whole numbers of a link in a form that may be coarser."""
    if isinstance(link, FixedPrecisionTensor) and link.scale > form.scale:
        return values.truncate(link.child, link.scale // form.scale)
    return whole(link, form)
