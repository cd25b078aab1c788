"""What a client shows to log in at a node or a gateway."""

from syft.grid.authentication.account import AccountCredential
from syft.grid.authentication.credential import AbstractCredential

__all__ = ["AbstractCredential", "AccountCredential"]
