"""`overloaded`: the decorators by which a link type written as a class says what it does with torch calls.

* `@overloaded.method def add(self, _self, *args)`: `_self` and the arguments are what is below; the result is
  put back under a link like `self`.
* `@overloaded.function def add(*args)`: the same for a function.
* `@overloaded.module def torch(module)`: collects functions, `module.add = add`, also nested ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from syft.core.tensor import AbstractTensor
from syft.core.trees import iter_tensors
from syft.exceptions import SyftError
from syft.hook.args import hook_response, unwrap_args_from_function, unwrap_args_from_method


class Module:
    """A namespace of overloaded functions, as `torch` or `torch.nn.functional`."""

    def __setattr__(self, name: str, value: Any) -> None:
        if callable(value) and not isinstance(value, Module):
            value.is_overloaded = True
        object.__setattr__(self, name, value)


class Overloaded:
    """The three decorators."""

    @staticmethod
    def overload_method(attr: Callable[..., Any]) -> Callable[..., Any]:
        """Unwrap the arguments of a method, and wrap its response."""

        @functools.wraps(attr)
        def method(self: Any, *args: object, **kwargs: object) -> Any:
            link = _first_link((self, args, kwargs), attr.__name__)  # self may be a plain tensor: 1 + x
            new_self, new_args, new_kwargs = unwrap_args_from_method(attr.__name__, self, args, kwargs)
            response = attr(link, new_self, *new_args, **new_kwargs)
            return hook_response(
                attr.__name__,
                response,
                wrap_type=type(link),
                wrap_args=link.get_class_attributes(),
                new_self=self if self is link else None,
            )

        method.is_overloaded = True  # type: ignore[attr-defined]
        return method

    @staticmethod
    def overload_function(attr: Callable[..., Any]) -> Callable[..., Any]:
        """Unwrap the arguments of a function, and wrap its response."""

        @functools.wraps(attr)
        def function(*args: object, **kwargs: object) -> Any:
            link = _first_link((args, kwargs), attr.__name__)
            new_args, new_kwargs, _ = unwrap_args_from_function(attr.__name__, args, kwargs)
            response = attr(*new_args, **new_kwargs)
            for leaf in iter_tensors((args, kwargs)):  # an in-place call returns its own argument
                if isinstance(leaf, AbstractTensor) and response is leaf.__dict__.get("child", leaf):
                    return leaf
            return hook_response(attr.__name__, response, wrap_type=type(link), wrap_args=link.get_class_attributes())

        function.is_overloaded = True  # type: ignore[attr-defined]
        return function

    @staticmethod
    def overload_module(attr: Callable[[Module], Any]) -> Module:
        """Run the decorated function once to collect what it puts on its module."""
        module = Module()
        attr(module)
        return module

    method = overload_method
    function = overload_function
    module = overload_module


def _first_link(values: object, name: str) -> AbstractTensor:
    """Return the first link of nested arguments."""
    for leaf in iter_tensors(values):
        if isinstance(leaf, AbstractTensor):
            return leaf
    raise SyftError(f"{name} was called without any link among its arguments.")


overloaded = Overloaded()
