"""The command `resyft`, and the check that nothing else uses the import name `syft`. The library is `syft`."""

from __future__ import annotations

from typing import NoReturn


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"module 'resyft' has no attribute {name!r}. The import name is syft: import syft as sy")
