"""Forms of calls from 0.2 that torch does not accept: options of approximations, and `add_(factor, t)`."""

from __future__ import annotations

from typing import Any

from syft._suggestions import one_of
from syft.exceptions import SyftError

# Method -> the names of its approximations, and its numbers of iterations. Functions are computed to the resolution of
# the format, or exactly where the numbers are plain, so the options are checked and then ignored.
OPTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "sigmoid": (("exp", "maclaurin", "chebyshev"), ()),
    "tanh": (("exp", "sigmoid", "chebyshev"), ()),
    "reciprocal": (("division", "log", "nr", "NR"), ("nr_iters",)),
    "exp": ((), ("iterations",)),
    "log": ((), ("iterations", "exp_iterations")),
    "inverse": ((), ("iterations",)),
}
# Methods with the form (factor, t), which torch had for numbers.
_SCALED = frozenset({"add", "add_", "sub", "sub_"})
# Methods whose arguments may have to be changed.
OLD_FORMS = _SCALED | OPTIONS.keys()


def check_options(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Check the options of an approximation; returns the options that are not of one."""
    methods, counts = OPTIONS.get(name, ((), ()))
    rest = dict(options)
    if methods and (method := rest.pop("method", None)) is not None and method not in methods:
        raise SyftError(f"{name}(method={str(method)[:40]!r}) is not known. {one_of(method, methods)}")
    for count in counts:
        value = rest.pop(count, None)
        if value is not None and (type(value) is not int or value < 1):
            raise SyftError(f"{name}({count}=...) needs a positive number of iterations, got {str(value)[:40]!r}.")
    return rest


def current_form(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a method, without itself, in the form that torch accepts."""
    if name in OPTIONS:
        return args, check_options(name, kwargs)
    if name in _SCALED and len(args) == 2 and hasattr(args[0], "numel"):
        factor, tensor = args
        if factor.numel() != 1:
            raise SyftError(
                f"{name}(factor, t) needs a factor with one element, got shape {tuple(factor.shape)}. "
                f"Multiply elementwise instead: x.{name}(factor * t)."
            )
        return (factor.reshape(()) * tensor,), kwargs
    return args, kwargs
