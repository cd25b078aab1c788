"""Secure aggregation at a client: keys, shares, masks, and when it answers what. The server's part is federated."""
