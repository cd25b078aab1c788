"""The kinds of translations there are; what makes them is loaded when first needed."""

from __future__ import annotations

import importlib
from typing import Any

# kind -> (module, class)
KINDS: dict[str, tuple[str, str]] = {
    "torchscript": ("syft.messaging.plan.translation.torchscript", "PlanTranslatorTorchscript"),
    "torch.export": ("syft.messaging.plan.translation.export", "PlanTranslatorExport"),
}


def kind_of(kind: object) -> str:
    """Return the kind that is named, or that a translator makes."""
    name = getattr(kind, "kind", kind)
    if type(name) is not str or name not in KINDS:
        raise ValueError(f"There is no translation {str(name)[:60]!r}; choose among {', '.join(KINDS)}.")
    return name


def translator_of(kind: str) -> Any:
    """Return the class that makes and loads a kind of translation."""
    module, name = KINDS[kind]
    return getattr(importlib.import_module(module), name)
