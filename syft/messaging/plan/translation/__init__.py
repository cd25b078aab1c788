"""Translations of plans to torch files, for programs without this library."""

from __future__ import annotations

from typing import Any

from syft.messaging.plan.translation.table import KINDS, translator_of


def __getattr__(name: str) -> Any:
    for kind, (_, cls) in KINDS.items():
        if cls == name:
            return translator_of(kind)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
