"""Nodes: workers on real networks, the grids that they form, and their owners."""

from typing import TYPE_CHECKING

from syft._lazy import lazy_names
from syft.grid.authentication import AccountCredential

if TYPE_CHECKING:
    from syft.grid.owner.client import NodeOwner as NodeOwner

__all__ = ["AccountCredential", "NodeOwner"]
if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__, _ = lazy_names(__name__, {"owner.client": ("NodeOwner",)})
