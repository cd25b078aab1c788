"""DynamicFLClient: an earlier name of DataCentricFLClient."""

from __future__ import annotations

from syft.workers.node_client import NodeClient

DynamicFLClient = NodeClient
