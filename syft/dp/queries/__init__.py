"""Queries with differential privacy: the client calls (`client`), their handler at a worker, and the estimators."""

# The command of a query in messages.
QUERY = "syft.dp_query"
