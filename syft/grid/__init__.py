"""Nodes: workers on real networks, and the grids that they form."""

from syft.grid.authentication import AccountCredential

__all__ = ["AccountCredential"]
