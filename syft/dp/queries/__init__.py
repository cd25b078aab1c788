"""Queries with differential privacy: the calls of clients (`client`), their handler at a worker, estimators."""

# The command of a query in messages.
QUERY = "syft.dp_query"
