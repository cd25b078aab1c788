"""Isolation: the processes of a node that run users' calls, and the supervisor that starts and serves them.

This package holds the session, vault and program processes, their confinement, and the channels to them. Not here:
identity, TLS, HTTP, the store and the rules of release, which stay in the node's own process.
"""
