"""Encrypted models that others may query: what the parties keep, invitations, guests, limits, and the clients' calls.

Plain models are in `syft.hosting`.
"""
