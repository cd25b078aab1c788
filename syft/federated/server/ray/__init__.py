"""Simulated clients as actors of a Ray cluster: the pool, its scheduler, and the actor."""
