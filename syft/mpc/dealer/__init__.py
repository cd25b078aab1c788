"""The dealer: correlated randomness for the parties, and how it is sent.

Not here: the service that answers parties (`syft.mpc.runtime.dealer_service`).
"""
