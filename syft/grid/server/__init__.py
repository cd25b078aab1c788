"""The network side of a node: the HTTP app, WebSocket endpoint, authentication, resumable sessions.

Not here: the node itself and its settings (`syft.grid.node`), and processes of users (`syft.grid.isolation`).
"""
