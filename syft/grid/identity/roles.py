"""What each role may do at a node: one table."""

from __future__ import annotations

import enum

from syft.exceptions import AccountError

__all__ = ["OWNER", "ROLES", "USER", "Capability", "check_role", "may"]

OWNER = "owner"
USER = "user"


class Capability(enum.StrEnum):
    """Something that not everybody may do."""

    COMPUTE = "send commands, and objects of one's own"
    REQUEST = "ask for the release of a result"
    HOST_MODEL = "serve a model to others"
    SEE_ALL = "see and fetch every object of the node"
    DECIDE = "approve and deny requests"
    MANAGE_USERS = "add, change and remove users, and revoke tokens"
    MANAGE_NODE = "manage the node: its data, its quotas, how it is doing"
    READ_AUDIT = "read the audit log"


_OF_EVERYBODY = frozenset({Capability.COMPUTE, Capability.REQUEST, Capability.HOST_MODEL})
ROLES: dict[str, frozenset[Capability]] = {
    OWNER: frozenset(Capability),
    USER: _OF_EVERYBODY,
}


def check_role(role: object) -> str:
    """Return a role if there is such a one.

    Raises:
        AccountError: there is not.
    """
    if type(role) is not str or role not in ROLES:
        raise AccountError(f"There is no such role. Use one of: {', '.join(ROLES)}.")
    return role


def may(role: str, capability: Capability) -> bool:
    """Say whether a role may do something; an unknown role may do nothing.

    Example:
        >>> may("owner", Capability.DECIDE), may("user", Capability.DECIDE), may("admin", Capability.COMPUTE)
        (True, False, False)
    """
    return capability in ROLES.get(role, frozenset())
