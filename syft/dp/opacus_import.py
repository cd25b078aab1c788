"""Opacus, where it is there: loaded when it is needed, and without what it does to the log of the process."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from syft.exceptions import DependencyError


def opacus(name: str) -> Any:
    """Return a module of Opacus, or one that needs it; or say how to get it.

    Args:
        name: the name of the module.
    """
    root = logging.getLogger()
    before = list(root.handlers)
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "opacus":
            raise
        raise DependencyError("opacus", "resyft[dp]") from None
    finally:  # Opacus sets up the root logger when it is loaded; how a process logs is up to whoever runs it
        for handler in set(root.handlers) - set(before):
            root.removeHandler(handler)
