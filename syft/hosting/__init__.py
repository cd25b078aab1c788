"""Models that a worker hosts for other users: the messages' handlers (`server`) and the calls of clients (`client`).

Encrypted models that several parties serve together are in `syft.mpc.serving`.
"""
