"""The decorators that make plans of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from syft.messaging.plan.plan import Plan


class func2plan:
    """Decorate a function to make it a plan.

    Args:
        args_shape: the shapes of its arguments; the plan is then built at once. -1 stands for any size, and an
            example tensor may stand in the place of a shape.
        state: tensors that the function gets as its last argument: `bias, = state.read()`.

    Example:
        >>> import torch, syft as sy
        >>> @sy.func2plan(args_shape=[(-1, 1)])
        ... def double(x):
        ...     return x * 2
        >>> double(torch.ones(3, 1)).sum()
        tensor(6.)
    """

    def __new__(cls, args_shape: Any = None, state: Any = None) -> Any:
        """Make the decorator; written without parentheses, make the plan at once."""
        return cls()(args_shape) if callable(args_shape) else super().__new__(cls)

    def __init__(self, args_shape: Any = None, state: Any = None) -> None:
        self.args_shape = args_shape
        self.state_tensors = state if state is not None else ()
        self.include_state = state is not None

    def __call__(self, plan_function: Callable[..., Any]) -> Plan:
        """Make the plan, and build it if shapes were given."""
        if not callable(plan_function):
            raise TypeError(f"func2plan makes a plan of a function or module, not of a {type(plan_function).__name__}.")
        plan = Plan(
            name=getattr(plan_function, "__name__", type(plan_function).__name__),
            include_state=self.include_state,
            forward_func=plan_function,
            state_tensors=self.state_tensors,
        )
        if self.args_shape is not None:
            plan.build(*Plan._create_placeholders(self.args_shape))
        return plan


def method2plan(*args: Any, **kwargs: Any) -> NoReturn:
    """Say what took the place of this decorator."""
    raise SyntaxError("method2plan is gone: subclass sy.Plan, write forward(self, ...), and call plan.build(...).")
