"""The runtime of protocols: groups of parties, rendezvous, execution at one party, and the client that starts runs.

Not here: the protocols (`syft.mpc.protocols`).
"""
