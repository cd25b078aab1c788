"""DataCentricFLClient: the name of NodeClient in the last 0.2 releases."""

from __future__ import annotations

from syft.workers.node_client import NodeClient

DataCentricFLClient = NodeClient
