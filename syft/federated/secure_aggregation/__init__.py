"""Secure aggregation: the server of a federated run sees the sum of the clients' results, and no single one."""

from syft.federated.client.secure_aggregation.client_policy import Identity as Identity
from syft.federated.client.secure_aggregation.client_policy import require_secure as require_secure
from syft.federated.secure_aggregation.settings import SecureAggregation as SecureAggregation
