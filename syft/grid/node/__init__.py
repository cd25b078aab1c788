"""A node: a worker with its own store, users and rights, served on one port."""
