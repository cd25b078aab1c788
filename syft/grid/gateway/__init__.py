"""The gateway of a grid: it knows which nodes there are and what can be found where; never data, or nodes' tokens."""

from syft.grid.gateway.server import Gateway
from syft.grid.gateway.settings import GatewaySettings

__all__ = ["Gateway", "GatewaySettings"]
