"""Calls that encrypted tensors compose anew from others.

torch composes some calls in ways that links below autograd can't follow: it takes a kernel for the whole of a
recurrent layer, or writes in place to a tensor that happens to be plain. Such a call is replaced, where the user
makes it and so above autograd, by the same mathematics written with calls that links have rules for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Composition = TypeVar("Composition", bound=Callable[..., Any])

# A torch function -> what runs in its place if the deciding link among its arguments is below autograd.
COMPOSED: dict[Any, Callable[..., Any]] = {}


def composed(*functions: object) -> Callable[[Composition], Composition]:
    """Register a function of tensors, whatever they are, to run in place of torch functions."""

    def register(composition: Composition) -> Composition:
        for function in functions:
            COMPOSED[function] = composition
        return composition

    return register
