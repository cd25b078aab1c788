"""Nodes: workers on real networks, and the grids that they form."""

from typing import TYPE_CHECKING

from syft._lazy import missing_name as _missing_name
from syft.grid.authentication import AccountCredential

__all__ = ["AccountCredential"]

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__ = _missing_name(__name__)
