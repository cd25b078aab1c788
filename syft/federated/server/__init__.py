"""The server side of a federated run: the round loop, dispatch to clients, aggregation, checkpoints, simulation.

Not here: strategies (`syft.federated.strategies`), and the clients' side (`syft.federated.client`).
"""
