"""The command line: `python -m syft node start`, and what an owner does with a node."""
