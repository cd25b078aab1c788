"""Behaviours of the 0.2 API."""
