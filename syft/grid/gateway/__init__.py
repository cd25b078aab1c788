"""The gateway of a grid: a registry of nodes, tags and models. It never sees data or the tokens of nodes."""

from syft.grid.gateway.server import Gateway
from syft.grid.gateway.settings import GatewaySettings

__all__ = ["Gateway", "GatewaySettings"]
