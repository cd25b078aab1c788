"""FrameworkAttributes and TorchAttributes: the parts of torch that the hook adds to, and the calls that workers run."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from types import ModuleType
from typing import Any

from syft.core.dispatch import resolve
from syft.hook.allowed_functions import CONSTRUCTORS, allowed, overridable
from syft.hook.denylist import REFUSED
from syft.hook.syft_tensor import SyftTensor

_AUGMENTED = frozenset(
    f"__i{name}__" for name in "add and floordiv lshift matmul mod mul or pow rshift sub truediv xor".split()
)


class FrameworkAttributes(ABC):
    """Names and tables of a framework."""

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

    @staticmethod
    def get_native_framework_name(attr: str) -> str:
        """Return the name the original of a function is kept under: torch.add -> torch.native_add."""
        head, _, name = attr.rpartition(".")
        return f"{head}.native_{name}" if head else f"native_{name}"


class TorchAttributes(FrameworkAttributes):
    """Names and tables of torch."""

    Tensor = SyftTensor

    def __init__(self, torch: ModuleType, hook: Any) -> None:
        self.torch = torch
        self.hook = hook
        self.torch_modules = {
            "torch": torch,
            "torch.functional": torch.functional,
            "torch.nn.functional": torch.nn.functional,
        }
        # Never run for a peer; denylist.py has the reasons.
        self.exclude = sorted(REFUSED)
        self.worker_methods = [name.removeprefix("torch.") for name in CONSTRUCTORS]
        self.allowed_commands = set(allowed()) | set(CONSTRUCTORS)
        self.native_commands: dict[str, str] = {
            name: self.get_native_torch_name(name)
            for name in overridable()
            if name.rpartition(".")[0] in self.torch_modules
        }

    def eval_torch_modules(self) -> dict[str, Any]:
        """Return the native function of each command, by name."""
        return {name: resolve(name) for name in self.native_commands}

    get_native_torch_name = staticmethod(FrameworkAttributes.get_native_framework_name)

    @staticmethod
    def apply_fix16922(torch: ModuleType) -> None:
        """Do nothing: torch has had this fix since 1.0.2. Kept because it is documented."""
