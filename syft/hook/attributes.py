"""FrameworkAttributes: what a hook knows about the framework it adds to."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from typing import Any

_AUGMENTED = frozenset(
    f"__i{name}__" for name in "add and floordiv lshift matmul mod mul or pow rshift sub truediv xor".split()
)


class FrameworkAttributes(ABC):
    """Names and tables of a framework.

    Args:
        framework: the framework's module.
        hook: the hook.
    """

    ALIAS = "torch"
    Tensor: Any = None

    @abstractmethod
    def __init__(self, framework: object, hook: object) -> None: ...

    @staticmethod
    @functools.cache
    def is_inplace_method(method_name: str) -> bool:
        """Say whether a method works in place: it ends with one underscore, or is an augmented assignment."""
        if method_name.startswith("__"):
            return method_name in _AUGMENTED
        return method_name.endswith("_") and not method_name.endswith("__")

    @classmethod
    def get_native_framework_name(cls, attr: str) -> str:
        """Return the name the original of a function is kept under: torch.add -> torch.native_add."""
        head, _, name = attr.rpartition(".")
        return f"{head}.native_{name}" if head else f"native_{name}"
