"""The calls that only plans have: sizes and arithmetic on them, and the checks that keep a recording honest.

A recording fixes what Python decided. Each such decision about the form of a tensor is kept as a check, so that a
plan gives what the function would give, or raises.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from syft.exceptions import MalformedPlanError, PlanMismatchError

MAX_NUMBER = 2**63
_RECORDED = torch.SymInt | torch.SymFloat
RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "truediv": operator.truediv,
    "neg": operator.neg,
}
# What may be asked of a tensor's form, by the name a check has for it.
FORMS: dict[str, Callable[[Any], Any]] = {
    "ndim": lambda tensor: tensor.dim(),
    "dtype": lambda tensor: tensor.dtype,
    "device": lambda tensor: tensor.device,
    "layout": lambda tensor: tensor.layout,
    "requires_grad": lambda tensor: tensor.requires_grad,
    "is_leaf": lambda tensor: tensor.is_leaf,
    "stride": lambda tensor: tuple(tensor.stride()),
    "is_contiguous": lambda tensor: tensor.is_contiguous(),
    "storage_offset": lambda tensor: tensor.storage_offset(),
    "is_conj": lambda tensor: tensor.is_conj(),
    "is_neg": lambda tensor: tensor.is_neg(),
    "has a gradient": lambda tensor: tensor.grad is not None,
}


def bounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make arithmetic refuse what is no number, and results that no size has."""

    def compute(*operands: object) -> Any:
        if not all(type(operand) in (int, float) for operand in operands):
            if all(isinstance(operand, int | float | _RECORDED) for operand in operands):
                return function(*operands)  # inside the recording of another plan
            raise MalformedPlanError("A plan computes with sizes and numbers only.")
        result = function(*operands)
        if not -MAX_NUMBER < result < MAX_NUMBER:
            raise MalformedPlanError("A plan computed a size that no tensor has.")
        return result

    return compute


def size_of(tensor: torch.Tensor, dim: int) -> int:
    """Return one size of a tensor."""
    size: int = tensor.shape[dim]
    return size


def numel_of(tensor: torch.Tensor) -> int:
    """Return how many elements a tensor has."""
    count: int = tensor.numel()
    return count


def expect(relation: str, left: object, right: object, outcome: bool) -> None:
    """Check that a comparison of sizes ends as it did when the plan was built."""
    if RELATIONS[relation](left, right) is not outcome:
        raise PlanMismatchError(
            f"For these arguments {_short(left)} {relation} {_short(right)} is {not outcome}; when the plan was built, "
            f"that comparison of sizes was {outcome}, so its function might do something else now. Build a plan with "
            "such an example. (x.shape[0] follows the arguments; len(x), range() and comparisons fix a size.)"
        )


def expect_form(tensor: torch.Tensor, form: str, expected: object) -> None:
    """Check that a tensor has the form it had when the plan was built."""
    found = FORMS[form](tensor)
    if found != expected:
        raise PlanMismatchError(
            f"The plan was built for a tensor whose {form} is {_short(expected)}, and this one's is {_short(found)}. "
            "Build a plan for it: plan.build(...) with such an example."
        )


def gradient_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the gradient of a tensor; zeros, which do not become its gradient, where there is none."""
    grad: Any = tensor.grad
    return torch.zeros_like(tensor) if grad is None else grad


def _short(value: object) -> str:
    return str(value)[:60]


GRAD_MODE = "syft.plan.grad_mode"
OPTIMIZER_STEP = "syft.plan.optimizer_step"
SIZE, NUMEL = "syft.plan.size", "syft.plan.numel"
EXPECT, EXPECT_FORM = "syft.plan.expect", "syft.plan.expect_form"
GRADIENT = "syft.plan.gradient"
COMMANDS: dict[str, Callable[..., Any]] = {
    SIZE: size_of,
    NUMEL: numel_of,
    EXPECT: expect,
    EXPECT_FORM: expect_form,
    GRADIENT: gradient_of,
    **{f"syft.plan.{name}": bounded(function) for name, function in ARITHMETIC.items()},
}
# Pure: without a reader of their result they can go.
PURE = frozenset({SIZE, NUMEL, GRADIENT, "torch.Tensor.grad.__get__", *(f"syft.plan.{name}" for name in ARITHMETIC)})
