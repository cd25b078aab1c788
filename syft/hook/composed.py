"""Calls that encrypted tensors compose from other calls.

torch composes some calls in ways that links below autograd can't follow: it runs one kernel for a whole recurrent
layer, or writes in place to a plain tensor. Such a call is replaced, above autograd, by the same mathematics written
with calls that links have rules for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Composition = TypeVar("Composition", bound=Callable[..., Any])

# A torch function -> its replacement if the deciding link among its arguments is below autograd.
COMPOSED: dict[Any, Callable[..., Any]] = {}


def composed(*functions: object) -> Callable[[Composition], Composition]:
    """Register a function of tensors of any kind as the replacement of torch functions."""

    def register(composition: Composition) -> Composition:
        for function in functions:
            COMPOSED[function] = composition
        return composition

    return register
