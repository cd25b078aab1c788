"""Encrypted models that clients query: invited by the owner (`serve`, `query`), or as users of nodes (`client`).

The parties' side is `server` for both, and `endpoint` for invited clients. Plain models are in `syft.hosting`.
"""
