"""The capabilities of each role."""

from __future__ import annotations

import enum

from syft._suggestions import did_you_mean
from syft.exceptions import AccountError

OWNER = "owner"
USER = "user"


class Capability(enum.StrEnum):
    """A capability that a role may grant."""

    COMPUTE = "send commands and objects"
    REQUEST = "request the release of a result"
    HOST_MODEL = "host a model for others"
    SEE_ALL = "see and fetch every object of the node"
    DECIDE = "approve and deny requests"
    MANAGE_USERS = "add, change and remove users, and revoke tokens"
    MANAGE_NODE = "manage the node: its data, quotas and status"
    READ_AUDIT = "read the audit log"


_COMMON = frozenset({Capability.COMPUTE, Capability.REQUEST, Capability.HOST_MODEL})
ROLES: dict[str, frozenset[Capability]] = {
    OWNER: frozenset(Capability),
    USER: _COMMON,
}


def check_role(role: object) -> str:
    """Return a role if it exists.

    Raises:
        AccountError: it does not exist.
    """
    if type(role) is not str or role not in ROLES:
        raise AccountError(f"Unknown role.{did_you_mean(role, ROLES)} Use one of: {', '.join(ROLES)}.")
    return role


def may(role: str, capability: Capability) -> bool:
    """Return whether a role has a capability; an unknown role has none.

    Example:
        >>> may("owner", Capability.DECIDE), may("user", Capability.DECIDE), may("admin", Capability.COMPUTE)
        (True, False, False)
    """
    return capability in ROLES.get(role, frozenset())
