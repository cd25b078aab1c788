"""Commands of plans: sizes, arithmetic on sizes, and checks of properties.

A recording fixes the decisions of Python code. Each decision that depends on a property of a tensor is recorded as a
check, so that a plan either gives the same results as the function, or raises.
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
# The properties of a tensor that a check may read, by their names on the wire.
PROPERTIES: dict[str, Callable[[Any], Any]] = {
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
    """Make arithmetic refuse operands that are not numbers, and results that can't be sizes."""

    def compute(*operands: object) -> Any:
        if not all(type(operand) in (int, float) for operand in operands):
            if all(isinstance(operand, int | float | _RECORDED) for operand in operands):
                return function(*operands)  # inside the recording of another plan
            raise MalformedPlanError("Arithmetic in a plan needs sizes and numbers.")
        result = function(*operands)
        if not -MAX_NUMBER < result < MAX_NUMBER:
            raise MalformedPlanError("A plan computed a size that no tensor can have.")
        return result

    return compute


def size_of(tensor: torch.Tensor, dim: int) -> int:
    """Return one size of a tensor."""
    size: int = tensor.shape[dim]
    return size


def numel_of(tensor: torch.Tensor) -> int:
    """Return the number of elements of a tensor."""
    count: int = tensor.numel()
    return count


def expect(relation: str, left: object, right: object, outcome: bool) -> None:
    """Check that a comparison of sizes has the same outcome as when the plan was built."""
    if RELATIONS[relation](left, right) is not outcome:
        raise PlanMismatchError(
            f"For these arguments {_short(left)} {relation} {_short(right)} is {not outcome}; when the plan was built, "
            f"that comparison of sizes was {outcome}, so the recorded operations may not apply. Build a plan with an "
            "example of these sizes. (x.shape[0] follows the arguments; len(x), range() and comparisons fix a size.)"
        )


def expect_property(tensor: torch.Tensor, name: str, expected: object) -> None:
    """Check that a property of a tensor is the same as when the plan was built."""
    found = PROPERTIES[name](tensor)
    if found != expected:
        raise PlanMismatchError(
            f"The plan was built for a tensor whose {name} is {_short(expected)}, got {_short(found)}. "
            "Build a plan with such an example: plan.build(...)."
        )


def gradient_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the gradient of a tensor; zeros, which are not stored, if it has none."""
    grad: Any = tensor.grad
    return torch.zeros_like(tensor) if grad is None else grad


def _short(value: object) -> str:
    return str(value)[:60]


GRAD_MODE = "syft.plan.grad_mode"
OPTIMIZER_STEP = "syft.plan.optimizer_step"
SIZE, NUMEL = "syft.plan.size", "syft.plan.numel"
EXPECT, EXPECT_PROPERTY = "syft.plan.expect", "syft.plan.expect_form"
GRADIENT = "syft.plan.gradient"
COMMANDS: dict[str, Callable[..., Any]] = {
    SIZE: size_of,
    NUMEL: numel_of,
    EXPECT: expect,
    EXPECT_PROPERTY: expect_property,
    GRADIENT: gradient_of,
    **{f"syft.plan.{name}": bounded(function) for name, function in ARITHMETIC.items()},
}
# Operations whose result is a number.
COMPUTED = frozenset(f"syft.plan.{name}" for name in ARITHMETIC)
NUMBERS = COMPUTED | {SIZE, NUMEL}
# Operations without side effects: one whose result is unused is dropped.
PURE = NUMBERS | {GRADIENT, "torch.Tensor.grad.__get__"}
