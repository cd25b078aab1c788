"""Rules of CRTPrecisionTensor: sums residue by residue, products of rebuilt numbers, and equality."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import torch

from syft.core.dispatch import run
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.tensors import big_integers as big
from syft.tensors.big_integers import Integers
from syft.tensors.crt_precision import CRTPrecisionTensor
from syft.tensors.torch_names import functions

_Tensor: Any = torch.Tensor


def _implements(names: str) -> Callable[[Any], Any]:
    return CRTPrecisionTensor.implements(*functions(names))


def _pair(left: object, right: object) -> tuple[CRTPrecisionTensor, CRTPrecisionTensor]:
    """Return two operands as links of one format; integers and other numbers are encoded."""
    model: Any = left if isinstance(left, CRTPrecisionTensor) else right
    first, second = (_as_link(operand, model) for operand in (left, right))
    if (first.moduli, first.scale, first.base) != (second.moduli, second.scale, second.base):
        raise SyftError(
            "The operands have different moduli or digits. "
            "Encode both with the same field_type, base and precision_fractional."
        )
    return first, second


def _as_link(operand: object, model: CRTPrecisionTensor) -> CRTPrecisionTensor:
    if isinstance(operand, CRTPrecisionTensor):
        return operand
    if not isinstance(operand, int | float):
        raise UnsupportedOperationError(
            f"An operand of type {type(operand).__name__}", "CRTPrecisionTensor",
            "Use a number, or encode the tensor alike: y.fix_precision(storage='crt', ...).",
        )  # fmt: skip
    units = big.integers(big.number_to_units(operand, model.scale, nearest=True))
    if not big.fits(units, model.field):
        raise SyftError(
            f"This number does not fit: with {model.scale} units to one, the product of the moduli is too small. "
            "Encode with field_type='int128', or fewer digits (precision_fractional)."
        )
    return model.like(units)


def _sum(left: object, right: object, function: Any) -> CRTPrecisionTensor:
    first, second = _pair(left, right)
    _broadcast(tuple(first.shape), tuple(second.shape))
    others = second.residues
    terms = first.terms + second.terms if first.is_shared or second.is_shared else 1
    return _typed(first.each(lambda modulus, content: run(function, (content, others[modulus].child)), terms), second)


def _broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(left, right)
    except ValueError:
        raise SyftError(f"The shapes {left} and {right} can't be broadcast.") from None


def _typed(result: CRTPrecisionTensor, other: CRTPrecisionTensor) -> CRTPrecisionTensor:
    """Give a result the wider of two dtypes."""
    if other.tensor_meta().dtype is torch.float64:
        for link in result.residues.values():
            link.decodes_to = torch.float64
    return result


@_implements("add __add__ __radd__")
def _add(left: object, right: object) -> CRTPrecisionTensor:
    return _sum(left, right, torch.add)


@_implements("sub subtract __sub__")
def _sub(left: object, right: object) -> CRTPrecisionTensor:
    return _sum(left, right, torch.sub)


@_implements("rsub __rsub__")
def _rsub(left: object, right: object) -> CRTPrecisionTensor:
    return _sum(right, left, torch.sub)


@_implements("neg negative __neg__")
def _neg(link: CRTPrecisionTensor) -> CRTPrecisionTensor:
    return link.each(lambda modulus, content: run(torch.neg, (content,)), link.terms)


@_implements("mul multiply __mul__ __rmul__")
def _mul(left: object, right: object) -> CRTPrecisionTensor:
    for number, link in ((left, right), (right, left)):
        if isinstance(number, int) and isinstance(link, CRTPrecisionTensor):
            return _multiple(link, int(number))
    first, second = _pair(left, right)
    _refuse_shared("mul", first, second)
    _broadcast(tuple(first.shape), tuple(second.shape))
    products = big.integers(first.reconstruct() * second.reconstruct())
    scaled: Integers = np.empty(products.size, dtype=object)
    scaled[:] = [big.quotient(number, first.scale) for number in products.reshape(-1)]
    return _typed(first.like(scaled.reshape(products.shape)), second)


def _multiple(link: CRTPrecisionTensor, factor: int) -> CRTPrecisionTensor:
    """Multiply by an integer, residue by residue, with the factor nearest to zero for each modulus."""
    factors = {modulus: (factor + modulus // 2) % modulus - modulus // 2 for modulus in link.moduli}
    grown = link.terms * max(1, *map(abs, factors.values())) if link.is_shared else 1
    return link.each(lambda modulus, content: run(torch.mul, (content, factors[modulus])), grown)


def _refuse_shared(call: str, *links: CRTPrecisionTensor) -> None:
    if any(link.is_shared for link in links):
        raise UnsupportedOperationError(
            call, "a shared CRTPrecisionTensor",
            "Its shares can be added, subtracted and multiplied by integers. Fetch it first: x.get(); or share numbers "
            "of fixed precision: x.fix_precision().share(...).",
        )  # fmt: skip


def _equality(names: str, unequal: bool) -> None:
    @_implements(names)
    def compare(left: object, right: object) -> CRTPrecisionTensor:
        first, second = _pair(left, right)
        _refuse_shared(names.split()[0], first, second)
        shape = _broadcast(tuple(first.shape), tuple(second.shape))
        others = second.residues
        same = torch.ones(shape, dtype=torch.bool)
        for modulus, link in first.residues.items():
            same = same & (link.child == others[modulus].child)
        return first.like(big.to_units((~same if unequal else same).long(), first.scale))


_equality("eq __eq__", False)
_equality("ne not_equal __ne__", True)


@_implements("div divide true_divide __truediv__ __rtruediv__ div_ divide_ true_divide_ __itruediv__")
def _div(left: object, right: object, **kwargs: object) -> NoReturn:
    raise UnsupportedOperationError(
        "div", "CRTPrecisionTensor", "Residues can't be divided. Decode it first: x.float_precision()."
    )


def _in_place(names: str, rule: Callable[..., CRTPrecisionTensor]) -> None:
    """Register the in-place forms of a rule: the link gets the residues of the result."""

    def write(target: object, *args: object) -> CRTPrecisionTensor:
        if not isinstance(target, CRTPrecisionTensor):
            raise UnsupportedOperationError(
                f"{names.split()[0]} on a plain tensor", "CRTPrecisionTensor", "Use x = x + y."
            )
        result = rule(target, *args)
        if result.shape != target.shape:
            raise SyftError(
                f"{names.split()[0]}() can't change the shape {tuple(target.shape)} to {tuple(result.shape)}. "
                "Use the form that is not in place."
            )
        target.child, target.terms = result.child, result.terms
        return target

    CRTPrecisionTensor.implements(*functions(names))(write)


_in_place("add_ __iadd__", _add)
_in_place("sub_ subtract_ __isub__", _sub)
_in_place("mul_ multiply_ __imul__", _mul)


def _move(function: Any) -> None:
    """Register a call that only moves values: it runs on each residue."""

    def move(link: CRTPrecisionTensor, *args: object, **kwargs: object) -> CRTPrecisionTensor:
        return link.each(lambda modulus, content: run(function, (content, *args), kwargs), link.terms)

    CRTPrecisionTensor.implements(function)(move)


for _function in functions(
    "__getitem__ view reshape flatten ravel squeeze unsqueeze t transpose permute movedim expand flip select narrow"
):
    _move(_function)


@CRTPrecisionTensor.implements(_Tensor.detach, torch.detach, torch.clone, _Tensor.clone, _Tensor.data.__get__)
def _clone(link: CRTPrecisionTensor, *, memory_format: torch.memory_format | None = None) -> CRTPrecisionTensor:
    return link.clone()


@CRTPrecisionTensor.implements(_Tensor.__format__)
def _formatted(link: CRTPrecisionTensor, spec: str) -> str:
    return format(link.float_precision(), spec) if spec else f"(Wrapper)>{link!r}"


@CRTPrecisionTensor.implements(_Tensor.__deepcopy__)
def _deepcopy(link: CRTPrecisionTensor, memo: dict[int, Any]) -> CRTPrecisionTensor:
    return link.clone()


@CRTPrecisionTensor.implements(_Tensor.is_leaf.__get__)
def _is_leaf(link: CRTPrecisionTensor) -> bool:
    return True
