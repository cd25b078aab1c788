"""`sy.torch`: torch, with the name `hook` for the TorchHook in force. Torch itself gets no attribute."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from syft.hook import _installed


class TorchNamespace(ModuleType):
    """Passes every name but `hook` on to torch: reading, setting and deleting."""

    def __init__(self) -> None:
        super().__init__("torch")
        # Names that every module has are read from its dictionary, and would not be passed on.
        vars(self).update({name: vars(torch)[name] for name in vars(self) if name in vars(torch)})

    def __getattr__(self, name: str) -> Any:
        if name != "hook":
            return getattr(torch, name)
        if not _installed:
            raise AttributeError("sy.torch.hook: torch is not hooked. Call sy.TorchHook(torch) first.", name=name)
        return _installed[0]

    def __setattr__(self, name: str, value: object) -> None:
        if name == "hook":
            raise AttributeError("sy.torch.hook can't be set. Hook torch with sy.TorchHook(torch).", name=name)
        setattr(torch, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(torch, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(torch), "hook"})

    def __repr__(self) -> str:
        return repr(torch)

    def __eq__(self, other: object) -> bool:
        return other is self or other is torch

    def __hash__(self) -> int:
        return hash(torch)

    def __reduce__(self) -> Any:
        return torch_namespace, ()


_NAMESPACE = TorchNamespace()


def torch_namespace() -> ModuleType:
    """Return torch with `hook`, the same object each time."""
    return _NAMESPACE
