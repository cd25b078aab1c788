"""Isolation: the processes of a node that run users' calls, and what passes between them and the supervisor.

Here are the session process, the vault and the program process, how they are confined, and the channels to them.
Identity, TLS, HTTP, the store and the rules of release are not here: they stay in the node's own process.
"""
