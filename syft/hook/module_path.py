"""The module that runs, by its name in the outermost one, for error texts."""

from __future__ import annotations

import sys
from typing import Any

import torch

_CALL = torch.nn.Module._call_impl.__code__


def running_modules() -> list[torch.nn.Module]:
    """Return the modules that are being called in this thread, the innermost first."""
    found = []
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code is _CALL:
            found.append(frame.f_locals["self"])
        frame = frame.f_back
    return found


def module_place() -> tuple[str, torch.nn.Module] | None:
    """Return the innermost running module and its name in the outermost module that contains it; None if none runs."""
    modules = running_modules()
    if not modules:
        return None
    inner = modules[0]
    for outer in reversed(modules):
        for name, part in outer.named_modules():
            if part is inner:
                return name, inner
    return "", inner


def describe_place() -> str | None:
    """Return the module that runs, as a part of a sentence."""
    found = module_place()
    if found is None:
        return None
    name, module = found
    return f"{name} ({type(module).__name__})" if name else f"the module {type(module).__name__}"
