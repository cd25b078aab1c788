"""Clients of nodes, by the names of later 0.2 releases."""

from syft.grid.clients.data_centric_fl_client import DataCentricFLClient as DataCentricFLClient
from syft.grid.clients.dynamic_fl_client import DynamicFLClient as DynamicFLClient
