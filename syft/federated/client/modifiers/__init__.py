"""Modifiers: changes that strategies, privacy and secure aggregation make to the training at a client."""
