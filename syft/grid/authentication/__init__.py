"""Credentials of clients for nodes and gateways."""

from syft.grid.authentication.account import AccountCredential
from syft.grid.authentication.credential import AbstractCredential

__all__ = ["AbstractCredential", "AccountCredential"]
