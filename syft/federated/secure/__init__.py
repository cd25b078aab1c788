"""Secure aggregation: the server of a federated run sees the sum of what clients give, and nothing of a single one."""

from syft.federated.secure.settings import SecureAggregation as SecureAggregation
from syft.workers.secure.guard import Identity as Identity
from syft.workers.secure.guard import require_secure as require_secure
