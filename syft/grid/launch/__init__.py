"""Nodes for local work: real nodes in child processes that end with this program (`sy.launch`)."""
