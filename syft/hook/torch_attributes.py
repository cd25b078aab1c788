"""TorchAttributes: the parts of torch that the hook adds to, and the calls that workers run."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from syft.core.dispatch import resolve
from syft.hook.attributes import FrameworkAttributes
from syft.hook.denylist import REFUSED
from syft.hook.functions import CONSTRUCTORS, allowed, overridable
from syft.hook.syft_tensor import SyftTensor


class TorchAttributes(FrameworkAttributes):
    """Names and tables of torch.

    Args:
        torch: the torch module.
        hook: the TorchHook.
    """

    ALIAS = "torch"
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

    @staticmethod
    def get_native_torch_name(attr: str) -> str:
        """Return the alias of the native function: torch.add -> torch.native_add."""
        return FrameworkAttributes.get_native_framework_name(attr)

    @staticmethod
    def apply_fix16922(torch: ModuleType) -> None:
        """Do nothing: torch has had this fix since 1.0.2. Kept because it is documented."""
