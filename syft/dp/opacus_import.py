"""Lazy import of Opacus, without its changes to the root logger."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from syft.exceptions import DependencyError


def opacus(name: str) -> Any:
    """Return a module of Opacus, or one that needs it; raises with installation instructions if it is missing."""
    root = logging.getLogger()
    before = list(root.handlers)
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "opacus":
            raise
        raise DependencyError("opacus", "dp") from None
    finally:  # importing Opacus configures the root logger, which is the application's decision
        for handler in set(root.handlers) - set(before):
            root.removeHandler(handler)
