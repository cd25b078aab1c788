"""Operands of rules as integers with a scale, links for results, and the decorators that register rules.

A format is the unit 1/scale that integers count. Fixed-precision links have one; shared whole numbers have scale 1. An
operation on several formats uses the finest one.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

import torch

from syft.core.tensor import Rule
from syft.core.trees import iter_tensors
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.mpc.rules.types import AnyTensor, Link, Number, Operand, Operation, Value
from syft.mpc.values import ring_ops
from syft.mpc.values.encoding import encode_number, encode_plain
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import FLOATS, FixedPrecisionTensor

if TYPE_CHECKING:
    from typing_extensions import TypeIs

RuleFunction = TypeVar("RuleFunction", bound=Callable[..., Any])
aten = torch.ops.aten


@dataclasses.dataclass(frozen=True, slots=True)
class FixedPointFormat:
    """The unit 1/scale that integers count; `model` is a link of this format, None for whole numbers."""

    scale: int
    model: FixedPrecisionTensor | None = None

    @property
    def field(self) -> int:
        """The number of encoded values."""
        return 2**62 if self.model is None else self.model.field

    @property
    def base(self) -> int:
        """The base of the digits behind the point."""
        return 2 if self.model is None else self.model.base

    def link(self, value: Value) -> Link:
        """Return a link of this format with integers below it."""
        if self.model is not None:
            return self.model.like(value)
        return cast("AdditiveSharingTensor", value)  # plain integers always have a model


WHOLE_NUMBERS = FixedPointFormat(1)


def format_of(*operands: object) -> FixedPointFormat:
    """Return the finest format among operands."""
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
    return WHOLE_NUMBERS if finest is None else FixedPointFormat(finest.scale, finest)


def is_link(operand: object) -> TypeIs[Link]:
    """Return whether an operand is a link."""
    return isinstance(operand, FixedPrecisionTensor | AdditiveSharingTensor)


def content(link: Link) -> Value:
    """Return the integers below a link."""
    if isinstance(link, AdditiveSharingTensor):
        return link
    if isinstance(link.child, torch.Tensor) and link.child.is_floating_point():
        raise SyftError("This tensor has a fixed-precision link but is not encoded yet; call .child.fix_precision().")
    value: Value = link.child
    return value


def storage_of(operand: AnyTensor) -> Any:
    """Return the object that holds the numbers of an operand; it is replaced whenever the numbers change."""
    if isinstance(operand, AdditiveSharingTensor):
        return next(iter(operand.child.values()))
    return operand.__dict__["child"] if isinstance(operand, FixedPrecisionTensor) else operand


@overload
def to_integers(operand: AnyTensor, fmt: FixedPointFormat) -> Value: ...
@overload
def to_integers(operand: Number, fmt: FixedPointFormat) -> int: ...
def to_integers(operand: Operand, fmt: FixedPointFormat) -> Value | int:
    """Return an operand as integers of a format."""
    if isinstance(operand, FixedPrecisionTensor):
        return ring_ops.scale(content(operand), fmt.scale // operand.scale)
    if isinstance(operand, AdditiveSharingTensor):
        return ring_ops.scale(operand, fmt.scale)
    if isinstance(operand, torch.Tensor):
        if fmt.model is None and operand.is_floating_point():
            if not torch.equal(operand, operand.round()):
                raise not_whole_error()
            operand = operand.to(torch.int64)
        return encode_plain(operand, fmt.scale, fmt.field)
    return to_integer(operand, fmt)


@overload
def reshaped(value: Link, shape: list[int]) -> Link: ...
@overload
def reshaped(value: AnyTensor, shape: list[int]) -> AnyTensor: ...
def reshaped(value: AnyTensor, shape: list[int]) -> AnyTensor:
    """Return a link or a public tensor in another shape."""
    if not is_link(value):
        return value.reshape(shape)
    rest = value.shape.numel() // abs(math.prod(shape)) if math.prod(shape) else 0
    return format_of(value).link(ring_ops.reshape(content(value), [rest if size == -1 else size for size in shape]))


# Minus infinity in a mask, or the lowest number of a dtype, excludes an element from a softmax. It is encoded as this
# number: exp of it is zero, and sums with it fit.
FLOOR = -(2.0**20)


def is_minus_infinity(tensor: torch.Tensor) -> torch.Tensor:
    """Return where plain numbers are minus infinity, or so low that they must be a mask."""
    return tensor < -(2.0**100)


@overload
def with_finite_mask(operand: torch.Tensor) -> torch.Tensor: ...
@overload
def with_finite_mask(operand: Operand) -> Operand: ...
def with_finite_mask(operand: Operand) -> Operand:
    """Return a public operand with minus infinity, as in masks, replaced by FLOOR."""
    if isinstance(operand, torch.Tensor) and operand.is_floating_point():
        low = is_minus_infinity(operand)
        return operand.masked_fill(low, FLOOR) if bool(low.any()) else operand
    return operand


def to_integer(number: object, fmt: FixedPointFormat) -> int:
    """Return a Python number as an integer of a format."""
    if not isinstance(number, int | float):
        raise UnsupportedOperationError(f"An operand of type {type(number).__name__}", "encrypted tensors")
    plain = int(number) if float(number).is_integer() else number
    if fmt.model is None and not isinstance(plain, int):
        raise not_whole_error()
    return encode_number(plain, fmt.scale, fmt.field)


def not_whole_error() -> SyftError:
    """Return the error for an operand with fractions in an operation on whole numbers."""
    return SyftError(
        "These shares are of whole numbers, and the other operand is not whole. "
        "Encode before sharing: x.fix_precision().share(...)."
    )


# --- dtypes --------------------------------------------------------------------------------------------------------
#
# Rules compute with integers and ignore dtypes. The dtype that results are decoded to is derived from the arguments of
# the call where the rule is registered, promoted as torch does, so that intermediate values of a rule do not affect it.


def dtype_of(args: tuple[object, ...], kwargs: dict[str, Any]) -> torch.dtype:
    """Return the dtype of the result of a call: its dtype argument, or the promoted dtype of its operands."""
    for given in (kwargs.get("dtype"), *args):
        if type(given) is torch.dtype and given in FLOATS:
            return given
    dtypes: dict[bool, torch.dtype] = {}
    for leaf in iter_tensors((args, kwargs)):
        if isinstance(leaf, FixedPrecisionTensor):
            dtype = leaf.decodes_to
        elif isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            dtype = leaf.dtype
        else:
            continue
        has_dimensions = bool(len(leaf.shape))
        previous = dtypes.get(has_dimensions)
        dtypes[has_dimensions] = (
            dtype if previous is None or previous is dtype else torch.promote_types(previous, dtype)
        )
    found = dtypes.get(True, dtypes.get(False, torch.float32))  # tensors without dimensions promote no others
    return found if found in FLOATS else torch.float32


def with_dtype(rule: Rule) -> Rule:
    """Give the results of a rule the dtype of the call."""

    @functools.wraps(rule)
    def run(*args: object, **kwargs: object) -> Any:
        result = rule(*args, **kwargs)
        made = [leaf for leaf in iter_tensors(result) if isinstance(leaf, FixedPrecisionTensor)]
        if made:
            dtype = dtype_of(args, kwargs)
            for link in made:
                if link.decodes_to is not dtype and not any(link is arg for arg in args):  # written in place
                    link.decodes_to = dtype
        return result

    return run


# --- registration ------------------------------------------------------------------------------------------------


def rule(*operations: Operation, in_place: bool = True, views: bool = False) -> Callable[[RuleFunction], RuleFunction]:
    """Register a rule for ATen operations on both kinds of links, and for their in-place variants.

    Args:
        *operations: the operations.
        in_place: whether to register in-place variants too.
        views: whether results are views of an argument; otherwise a result never shares the numbers of an argument.
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
    """Copy a result that has the same numbers as an argument (x * 1), so that fetching one keeps the other."""

    def run(*args: object, **kwargs: object) -> Any:
        result = function(*args, **kwargs)
        if is_link(result) and any(is_link(arg) and content(arg) is content(result) for arg in args):
            return format_of(result).link(ring_ops.local(aten.clone.default, content(result)))
        return result

    return run


def _register_in_place(operation: Operation, function: Rule) -> None:
    namespace, _, name = operation.overloadpacket._qualified_op_name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), f"{name}_", None)
    if packet is not None and operation._overloadname in packet.overloads():
        writes(getattr(packet, operation._overloadname))(function)


def writes(*operations: Operation) -> Callable[[RuleFunction], RuleFunction]:
    """Register a rule for in-place operations on both kinds of links; its result is written to its argument."""

    def register(function: RuleFunction) -> RuleFunction:
        def written(target: AnyTensor, *args: object, **kwargs: object) -> Link:
            return write(target, function(target, *args, **kwargs), str(operations[0]))

        for kind in (FixedPrecisionTensor, AdditiveSharingTensor):
            kind.implements(*operations)(written)
        return function

    return register


def write(target: AnyTensor, result: Link, operation: str) -> Link:
    """Write a result to a link, in the format of the link."""
    if not is_link(target):
        raise UnsupportedOperationError(
            f"{operation} in place on a plain tensor",
            "encrypted tensors",
            "Use the form that is not in place: x = x + y. (In an optimizer: these parameters are public, and their "
            "gradients are private. Encrypt the model too, or decrypt the gradients before the step.)",
        )
    if isinstance(target, AdditiveSharingTensor) and isinstance(result, FixedPrecisionTensor):
        raise UnsupportedOperationError(
            f"{operation} in place on whole numbers with a fixed-precision operand",
            "AdditiveSharingTensor",
            "Use the form that is not in place.",
        )
    if tuple(result.shape) != tuple(target.shape):
        raise UnsupportedOperationError(f"{operation} in place with another shape", type(target).__name__)
    if isinstance(target, FixedPrecisionTensor):
        written = in_format(result, FixedPointFormat(target.scale, target))
        # A shared tensor stays shared when public numbers are written to it (load_state_dict, zero_).
        if ring_ops.is_shared(target.child) and not ring_ops.is_shared(written) and target.child.is_there:
            written = ring_ops.public(ring_ops.as_tensor(written), target.child)
        target.child = written
    else:
        target.child = result.child
    if type(result) is type(target) and format_of(result).scale == format_of(target).scale:
        target.is_bit, target.facts = result.is_bit, result.facts
    return target


def in_format(link: AnyTensor, fmt: FixedPointFormat) -> Value:
    """Return an operand as integers of a format that may be coarser."""
    if isinstance(link, FixedPrecisionTensor) and link.scale > fmt.scale:
        return ring_ops.truncate(link.child, link.scale // fmt.scale)
    return to_integers(link, fmt)
