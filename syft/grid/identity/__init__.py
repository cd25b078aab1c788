"""The identity of a node: its key, tokens, users and roles."""

from syft.grid.identity.names import user_name
from syft.grid.identity.node_identity import NodeIdentity
from syft.grid.identity.revocations import Revocations
from syft.grid.identity.roles import OWNER, ROLES, USER, Capability, may
from syft.grid.identity.throttle import Throttle
from syft.grid.identity.tokens import TokenIdentity, Tokens
from syft.grid.identity.users import UserAccount, Users

__all__ = [
    "OWNER",
    "ROLES",
    "USER",
    "Capability",
    "NodeIdentity",
    "Revocations",
    "Throttle",
    "TokenIdentity",
    "Tokens",
    "UserAccount",
    "Users",
    "may",
    "user_name",
]
