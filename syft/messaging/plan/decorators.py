"""Decorators that make plans from functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import torch

from syft.messaging.plan.plan import Plan

Shapes = Sequence[Sequence[int] | torch.Tensor]


class func2plan:
    """Decorate a function to make it a plan.

    Args:
        args_shape: the shapes of its arguments; the plan is then built at once. -1 stands for any size; an
            example tensor may replace a shape.
        state: tensors that are passed to the function as its last argument: `bias, = state.read()`.

    Example:
        >>> import torch, syft as sy
        >>> @sy.func2plan(args_shape=[(-1, 1)])
        ... def double(x):
        ...     return x * 2
        >>> double(torch.ones(3, 1)).sum()
        tensor(6.)
    """

    def __new__(
        cls, args_shape: Shapes | Callable[..., Any] | None = None, state: Iterable[torch.Tensor] | None = None
    ) -> Any:
        """Make the decorator; without parentheses, make the plan at once."""
        return cls()(args_shape) if callable(args_shape) else super().__new__(cls)

    def __init__(
        self, args_shape: Shapes | Callable[..., Any] | None = None, state: Iterable[torch.Tensor] | None = None
    ) -> None:
        self.args_shape = args_shape
        self.state_tensors = state if state is not None else ()
        self.include_state = state is not None

    def __call__(self, plan_function: Callable[..., Any]) -> Plan:
        """Make the plan, and build it if shapes were passed."""
        if not callable(plan_function):
            raise TypeError(f"func2plan needs a function or a module, got a {type(plan_function).__name__}.")
        plan = Plan(
            name=getattr(plan_function, "__name__", type(plan_function).__name__),
            include_state=self.include_state,
            forward_func=plan_function,
            state_tensors=self.state_tensors,
        )
        if self.args_shape is not None:
            plan.build(*Plan._create_placeholders(self.args_shape))
        return plan


def method2plan(*args: object, **kwargs: object) -> NoReturn:
    """Refuse, and name the replacement of this decorator."""
    raise SyntaxError("method2plan was removed. Subclass sy.Plan, override forward(), and call plan.build(...).")
