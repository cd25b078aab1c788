"""The supervisor: starts the processes of users, carries their connections, and answers their calls about the node.

It parses only flat records of plain values. Not here: the network (`syft.grid.server`).
"""
