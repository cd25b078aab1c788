"""The module that runs, by its name in the outermost one, for error texts."""

from __future__ import annotations

import sys
from typing import Any

import torch

_CALL = torch.nn.Module._call_impl.__code__


def module_place() -> tuple[str, torch.nn.Module] | None:
    """Return the innermost running module and its name in the outermost module that contains it; None if none runs."""
    modules: list[torch.nn.Module] = []
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code is _CALL:
            modules.append(frame.f_locals["self"])
        frame = frame.f_back
    for outer in reversed(modules):
        for name, part in outer.named_modules():
            if part is modules[0]:
                return name, part
    return ("", modules[0]) if modules else None


def describe_place() -> str | None:
    """Return the module that runs, as a part of a sentence."""
    found = module_place()
    if found is None:
        return None
    name, module = found
    return f"{name} ({type(module).__name__})" if name else f"the module {type(module).__name__}"
