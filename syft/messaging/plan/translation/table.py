"""The kinds of translations there are."""

from __future__ import annotations

from typing import Any

from syft.messaging.plan.translation.export import PlanTranslatorExport
from syft.messaging.plan.translation.torchscript import PlanTranslatorTorchscript
from syft.messaging.plan.translation.translator import PlanTranslator

TRANSLATORS: dict[str, type[PlanTranslator]] = {
    cls.kind: cls for cls in (PlanTranslatorTorchscript, PlanTranslatorExport)
}


def kind_of(kind: Any) -> str:
    """Return the kind that is named, or that a translator makes."""
    name = getattr(kind, "kind", kind)
    if type(name) is not str or name not in TRANSLATORS:
        raise ValueError(f"There is no translation {str(name)[:60]!r}; choose among {', '.join(TRANSLATORS)}.")
    return name
