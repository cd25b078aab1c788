"""Shared values at the client: encoding in fixed point, sharing, operations on rings, tables of functions."""
