"""The owner's side of a node in Python: the commands of `python -m syft node`, over the same HTTP API."""
