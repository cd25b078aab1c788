"""Delegation: a client lets workers connect to each other on its behalf, with credentials for one session.

Not here: the computation that the workers then do together (`syft.mpc.runtime`).
"""
