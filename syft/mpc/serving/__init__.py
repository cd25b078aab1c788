"""Encrypted models that clients query, invited by the owner (`serve`) or as users of nodes.

The clients' side is `client`. The parties' side is `server`, and `endpoint` for invited clients. Plain models are in
`syft.hosting`.
"""
