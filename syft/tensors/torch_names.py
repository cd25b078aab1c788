"""The functions of torch by their names, for tables of rules."""

from __future__ import annotations

from typing import Any

import torch


def functions(names: str) -> list[Any]:
    """Return the functions and tensor methods with any of these names, each once; `T.__get__` is a property."""
    found: dict[Any, None] = {}
    for name in names.split():
        for home in (torch, torch.Tensor):
            value: Any = home
            for part in name.split("."):
                value = getattr(value, part, None)
            if value is not None:
                found[value] = None
    return list(found)
