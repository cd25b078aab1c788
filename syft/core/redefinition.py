"""Registries of functions and classes: a notebook cell that runs twice defines and registers them twice."""

from __future__ import annotations

from typing import Any


def is_redefinition(earlier: Any, later: Any) -> bool:
    """Return whether a function or class of a module was defined again under the same name."""
    name = earlier.__qualname__
    if "<locals>" in name:
        return False  # closures of one factory have the same name and are different functions
    return bool((earlier.__module__, name) == (later.__module__, later.__qualname__))
