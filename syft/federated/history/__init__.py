"""The history of a federated run: records of rounds, charts, HTML."""
