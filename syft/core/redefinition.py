"""Registries of functions and classes: a notebook cell that runs twice defines and registers them twice."""

from __future__ import annotations

from typing import Any


def is_redefinition(earlier: Any, later: Any) -> bool:
    """Return whether a function or class was defined again under the same name, in the same module."""
    return (earlier.__module__, earlier.__qualname__) == (later.__module__, later.__qualname__)
