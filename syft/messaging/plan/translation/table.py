"""The kinds of translations; each translator is imported at its first use."""

from __future__ import annotations

import importlib
from typing import Any

# kind -> (module, class)
KINDS: dict[str, tuple[str, str]] = {
    "torchscript": ("syft.messaging.plan.translation.torchscript", "PlanTranslatorTorchscript"),
    "torch.export": ("syft.messaging.plan.translation.export", "PlanTranslatorExport"),
}


def kind_of(kind: object) -> str:
    """Return a kind by its name or its translator."""
    name = getattr(kind, "kind", kind)
    if type(name) is not str or name not in KINDS:
        raise ValueError(f"There is no translation {str(name)[:60]!r}. Choose one of {', '.join(KINDS)}.")
    return name


def translator_of(kind: str) -> Any:
    """Return the class that makes and loads a kind of translation."""
    module, name = KINDS[kind]
    return getattr(importlib.import_module(module), name)
