"""The vault process: computes on private data and sends nothing to the user."""
