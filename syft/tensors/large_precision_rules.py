"""Rules of LargePrecisionTensor: arithmetic, comparisons and calls that only move values.

Operands of one format, plain tensors and numbers are read as arrays of Python integers, so intermediate results are
exact. Shared numbers are added and subtracted by limbs, and nothing else.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.tensors import big_integers as big
from syft.tensors.big_integers import Integers
from syft.tensors.large_precision import LargePrecisionTensor
from syft.tensors.precision import FixedPrecisionTensor
from syft.tensors.torch_names import functions

_Tensor: Any = torch.Tensor
Operation = Callable[[Any, Any], Any]


def _implements(names: str) -> Callable[[Any], Any]:
    return LargePrecisionTensor.implements(*functions(names))


def _links(*args: object) -> list[LargePrecisionTensor]:
    return [leaf for leaf in iter_tensors(args) if isinstance(leaf, LargePrecisionTensor)]


def _local(call: str, link: LargePrecisionTensor) -> None:
    """Raise if the numbers of a link are shared."""
    if link.is_shared:
        raise UnsupportedOperationError(
            call, "a shared LargePrecisionTensor",
            "Its shares can be added and subtracted. Fetch it first: x.get(); or share numbers of at most 62 bits.",
        )  # fmt: skip


def _as_link(operand: object, model: LargePrecisionTensor) -> LargePrecisionTensor:
    """Return an operand in the format of a link; plain values are encoded as that tensor was."""
    if isinstance(operand, LargePrecisionTensor):
        if _format(operand) != _format(model) or not operand.is_encoded:
            raise SyftError(
                "The operands are encoded differently. Encode both with the same base, precision_fractional and field: "
                "x.fix_precision(storage='large', precision_fractional=...)."
            )
        return operand
    if isinstance(operand, FixedPrecisionTensor):
        return _from_fixed(operand, model)
    if isinstance(operand, torch.Tensor):
        return _fitting(model, big.to_units(operand, model.scale))
    if isinstance(operand, int | float):
        return _fitting(model, big.integers(big.number_to_units(operand, model.scale)))
    raise UnsupportedOperationError(f"An operand of type {type(operand).__name__}", "LargePrecisionTensor")


def _format(link: LargePrecisionTensor) -> tuple[int, int, int]:
    return link.field, link.base, link.precision_fractional


def _from_fixed(operand: FixedPrecisionTensor, model: LargePrecisionTensor) -> LargePrecisionTensor:
    if operand.is_shared or operand.scale != model.scale:
        raise SyftError(
            "This fixed-precision operand is shared, or has another number of digits than the large-precision one. "
            "Encode both alike: x.fix_precision(storage='large', precision_fractional=...)."
        )
    return _fitting(model, big.to_units(operand.child, 1))


def _fitting(model: LargePrecisionTensor, numbers: Integers) -> LargePrecisionTensor:
    """Return a public operand as a link, with limbs that hold negative numbers too."""
    if not big.fits(numbers, model.field):
        raise SyftError(
            f"An operand does not fit in a field of {model.field.bit_length() - 1} bits. Encode with a larger one: "
            "x.fix_precision(storage='large', field=...)."
        )
    attributes = {**model.get_class_attributes(), "internal_type": torch.int64}
    return LargePrecisionTensor(**attributes).like(numbers)


def _dtype_of(*links: LargePrecisionTensor) -> torch.dtype:
    return torch.float64 if any(link.decodes_to is torch.float64 for link in links) else torch.float32


def _combined(left: object, right: object, function: Operation, call: str) -> LargePrecisionTensor:
    """Apply a function to the integers of two operands, broadcast."""
    model = _links(left, right)[0]
    operands = [_as_link(operand, model) for operand in (left, right)]
    for link in operands:
        _local(call, link)
    numbers = [link.reconstruct() for link in operands]
    shape = _broadcast(call, numbers[0].shape, numbers[1].shape)
    return _typed(model.like(big.integers(function(*numbers), shape)), *_links(left, right))


def _typed(result: LargePrecisionTensor, *links: LargePrecisionTensor) -> LargePrecisionTensor:
    result.decodes_to = _dtype_of(*links)
    return result


def _broadcast(call: str, left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(left, right)
    except ValueError:
        raise SyftError(f"{call}() can't broadcast the shapes {left} and {right}.") from None


# --- arithmetic -----------------------------------------------------------------------------------------------------


def _plus(left: object, right: object, sign: int, alpha: float) -> LargePrecisionTensor:
    if alpha != 1:
        right = _product(right, alpha) if _links(right) else right * alpha  # type: ignore[operator]
    call, model = "add" if sign > 0 else "sub", _links(left, right)[0]
    if any(link.is_shared for link in _links(left, right)):
        first, second = _as_link(left, model), _as_link(right, model)
        _broadcast(call, tuple(first.shape), tuple(second.shape))
        made = _typed(first.plus(second, sign), *_links(left, right))
        made.internal_type = model.internal_type
        return made
    return _combined(left, right, operator.add if sign > 0 else operator.sub, call)


@_implements("add __add__ __radd__")
def _add(left: object, right: object, *, alpha: float = 1) -> LargePrecisionTensor:
    return _plus(left, right, 1, alpha)


@_implements("sub subtract __sub__")
def _sub(left: object, right: object, *, alpha: float = 1) -> LargePrecisionTensor:
    return _plus(left, right, -1, alpha)


@_implements("rsub __rsub__")
def _rsub(left: object, right: object, *, alpha: float = 1) -> LargePrecisionTensor:
    return _plus(right, left, -1, alpha)


def _product(left: object, right: object) -> LargePrecisionTensor:
    model = _links(left, right)[0]
    for whole, link in ((left, right), (right, left)):
        if isinstance(whole, int) and isinstance(link, LargePrecisionTensor):
            _local("mul", link)
            return _typed(link.like(big.integers(link.reconstruct() * int(whole), tuple(link.shape))), link)
    return _combined(left, right, lambda a, b: a * b // model.scale, "mul")


@_implements("mul multiply __mul__ __rmul__")
def _mul(left: object, right: object) -> LargePrecisionTensor:
    return _product(left, right)


def _remainder(left: object, right: object) -> LargePrecisionTensor:
    def modulo(numbers: Integers, divisors: Integers) -> Any:
        if not all(divisors.reshape(-1)):
            raise SyftError("The remainder of a division by zero is not defined, and a divisor is zero.")
        return numbers % divisors

    return _combined(left, right, modulo, "remainder")


@_implements("remainder __mod__")
def _mod(left: object, right: object) -> LargePrecisionTensor:
    return _remainder(left, right)


@_implements("__rmod__")
def _rmod(left: object, right: object) -> LargePrecisionTensor:
    return _remainder(right, left)


@_implements("neg negative __neg__")
def _neg(link: LargePrecisionTensor) -> LargePrecisionTensor:
    if link.is_shared:
        return _plus(0, link, -1, 1)
    return _typed(link.like(big.integers(-link.reconstruct(), tuple(link.shape))), link)


@_implements("abs absolute __abs__")
def _abs(link: LargePrecisionTensor) -> LargePrecisionTensor:
    _local("abs", link)
    return _typed(link.like(big.integers(abs(link.reconstruct()), tuple(link.shape))), link)


@_implements("sum")
def _sum(
    link: LargePrecisionTensor, dim: int | list[int] | tuple[int, ...] | None = None, keepdim: bool = False
) -> LargePrecisionTensor:
    _local("sum", link)
    axis = tuple(dim) if isinstance(dim, list) else dim
    total = np.sum(link.reconstruct(), axis=axis, keepdims=keepdim, initial=0)
    return _typed(link.like(big.integers(total)), link)


def _in_place(names: str, rule: Callable[..., LargePrecisionTensor]) -> None:
    """Register the in-place forms of a rule: the link gets the limbs of the result."""

    def write(target: object, *args: object, **kwargs: object) -> LargePrecisionTensor:
        if not isinstance(target, LargePrecisionTensor):
            raise UnsupportedOperationError(
                f"{names.split()[0]} on a plain tensor", "LargePrecisionTensor", "Use x = x + y."
            )
        result = rule(target, *args, **kwargs)
        if result.shape != target.shape:
            raise SyftError(
                f"{names.split()[0]}() can't change the shape {tuple(target.shape)} to {tuple(result.shape)}. "
                "Use the form that is not in place."
            )
        target.child, target.terms = result.child, result.terms
        return target

    LargePrecisionTensor.implements(*functions(names))(write)


_in_place("add_ __iadd__", _add)
_in_place("sub_ subtract_ __isub__", _sub)
_in_place("mul_ multiply_ __imul__", _mul)
_in_place("remainder_ __imod__", _mod)
_in_place("neg_ negative_", _neg)


# --- comparisons ----------------------------------------------------------------------------------------------------


def _comparison(names: str, function: Operation) -> None:
    """Register a comparison: it gives ones and zeros, in the format of the operand."""

    @_implements(names)
    def compare(left: object, right: object) -> LargePrecisionTensor:
        model = _links(left, right)[0]
        return _combined(
            left, right, lambda a, b: np.asarray(function(a, b)).astype(object) * model.scale, names.split()[0]
        )


_comparison("gt greater __gt__", np.greater)
_comparison("lt less __lt__", np.less)
_comparison("ge greater_equal __ge__", np.greater_equal)
_comparison("le less_equal __le__", np.less_equal)
_comparison("eq __eq__", np.equal)
_comparison("ne not_equal __ne__", np.not_equal)


# --- reading values -------------------------------------------------------------------------------------------------


def _read(function: Any) -> None:
    """Register a call that reads values: it runs on the decoded tensor."""

    def read(link: LargePrecisionTensor, *args: object, **kwargs: object) -> Any:
        _local(function.__name__, link)
        return function(link.float_precision(), *args, **kwargs)

    LargePrecisionTensor.implements(function)(read)


for _function in functions("all any item tolist numpy __bool__ __float__ __int__ __contains__"):
    _read(_function)


@_implements("equal")
def _equal(left: object, right: object) -> bool:
    model = _links(left, right)[0]
    first, second = (_as_link(operand, model) for operand in (left, right))
    return first.shape == second.shape and bool(np.all(first.reconstruct() == second.reconstruct()))


# --- moving values --------------------------------------------------------------------------------------------------


def _move(function: Any) -> None:
    """Register a call that only moves values: it runs on the positions of the values."""

    def move(link: LargePrecisionTensor, *args: object, **kwargs: object) -> Any:
        _local(function.__name__, link)
        places = torch.arange(link.shape.numel()).reshape(link.shape)
        limbs = link.child.reshape(-1, link.child.shape[-1])
        return map_tensors(lambda found: link.around(limbs[found]), function(places, *args, **kwargs))

    LargePrecisionTensor.implements(function)(move)


for _function in functions(
    "__getitem__ view reshape view_as reshape_as flatten ravel squeeze unsqueeze t transpose permute movedim expand "
    "expand_as repeat flip roll select narrow index_select chunk split unbind contiguous cpu swapaxes swapdims diagonal"
):
    _move(_function)


def _joined(tensors: list[Any] | tuple[Any, ...], dim: int, function: Callable[..., Any]) -> LargePrecisionTensor:
    model = _links(tensors)[0]
    links = [_as_link(operand, model) for operand in tensors]
    for link in links:
        _local(function.__name__, link)
    try:
        made = function([link.reconstruct() for link in links], axis=dim)
    except ValueError as error:
        raise SyftError(f"These tensors can't be joined: {error}.") from None
    return _typed(model.like(made), *_links(tensors))


@LargePrecisionTensor.implements(torch.cat, torch.concat, torch.concatenate)
def _cat(tensors: list[Any] | tuple[Any, ...], dim: int = 0) -> LargePrecisionTensor:
    return _joined(tensors, dim, np.concatenate)


@LargePrecisionTensor.implements(torch.stack)
def _stack(tensors: list[Any] | tuple[Any, ...], dim: int = 0) -> LargePrecisionTensor:
    return _joined(tensors, dim, np.stack)


@LargePrecisionTensor.implements(_Tensor.detach, torch.detach, torch.clone, _Tensor.clone, _Tensor.data.__get__)
def _clone(link: LargePrecisionTensor, *, memory_format: torch.memory_format | None = None) -> LargePrecisionTensor:
    return link.clone()


@LargePrecisionTensor.implements(_Tensor.is_leaf.__get__)
def _is_leaf(link: LargePrecisionTensor) -> bool:
    return True


@LargePrecisionTensor.implements(_Tensor.__format__)
def _formatted(link: LargePrecisionTensor, spec: str) -> str:
    return format(link.float_precision(), spec) if spec else f"(Wrapper)>{link!r}"


@LargePrecisionTensor.implements(_Tensor.__deepcopy__)
def _deepcopy(link: LargePrecisionTensor, memo: dict[int, Any]) -> LargePrecisionTensor:
    return link.clone()
