"""Nodes: workers on real networks, and the grids that they form."""
