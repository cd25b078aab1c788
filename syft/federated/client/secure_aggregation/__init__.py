"""Secure aggregation at a client: keys, shares, masks and the order of steps. See `federated.secure_aggregation`."""
