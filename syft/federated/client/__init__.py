"""The client side of federated learning: local training, its modifiers, stored data sets, TrainConfig.

It needs only `syft.workers.execution` and `access`, never a transport or a kind of worker. The server is
`syft.federated.server`.
"""
