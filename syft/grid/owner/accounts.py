"""Users, tokens and the audit log of a node."""

from __future__ import annotations

from syft.grid.owner.api import NodeApi, quoted
from syft.grid.owner.requests import checked_seconds
from syft.grid.owner.rows import AuditEntry, NodeUser
from syft.grid.owner.tables import Columns, Listing, RowTable
from syft.grid.owner.texts import moment

_USERS: Columns = {
    "user": lambda row: row.user,
    "role": lambda row: row.role,
    "added": lambda row: moment(row.added),
}
_AUDIT: Columns = {
    "row": lambda row: row.number,
    "time": lambda row: moment(row.time),
    "user": lambda row: row.user,
    "action": lambda row: row.action,
    "allowed": lambda row: row.allowed,
    "reason": lambda row: row.reason,
}


class UserList(Listing[NodeUser]):
    """The users that have a password."""

    def list(self) -> RowTable[NodeUser]:
        """Return the users."""
        rows = [NodeUser.of(row) for row in self._api.ask("GET", "users")]
        return RowTable("users", _USERS, rows, "No user has a password here.")

    _rows = list

    def add(self, user: str, password: str, role: str = "user") -> NodeUser:
        """Add a user with a password."""
        return NodeUser.of(self._api.ask("POST", "users", {"user": user, "password": password, "role": role}))

    def remove(self, user: str) -> None:
        """Remove a user; the user's tokens end, the objects stay."""
        self._api.ask("DELETE", f"users/{quoted(user)}")

    def passwd(self, user: str, password: str) -> None:
        """Change a password; all tokens of the user are revoked."""
        self._api.ask("PUT", f"users/{quoted(user)}/password", {"password": password})


class TokenIssuer:
    """Issues and revokes tokens, which need no password. A node does not list them.

    Args:
        api: the API of the node.
    """

    def __init__(self, api: NodeApi) -> None:
        self._api = api

    def __repr__(self) -> str:
        return "<tokens of a node: tokens.issue(user), tokens.revoke(user=...)>"

    def issue(self, user: str, role: str = "user", expires: str | float = "30d") -> str:
        """Return a new token. Send it to the user over a secure channel.

        Args:
            user: the user it is for.
            role: user or owner.
            expires: how long it is valid: "12h", "30d", or seconds.
        """
        body = {"user": user, "role": role, "seconds": checked_seconds(expires)}
        return str(self._api.ask("POST", "tokens", body)["token"])

    def revoke(self, user: str | None = None, token: str | None = None) -> None:
        """Revoke a token, or all tokens of a user."""
        body = {name: value for name, value in (("user", user), ("token", token)) if value is not None}
        self._api.ask("POST", "tokens/revoke", body)


class AuditTrail(Listing[AuditEntry]):
    """The audit log: logins, requests, decisions and releases, the oldest first."""

    def show(self, after: int = 0, limit: int = 100) -> RowTable[AuditEntry]:
        """Return rows of the log.

        Args:
            after: leave out rows up to this number.
            limit: the maximum number, up to 1000.
        """
        rows = [AuditEntry.of(row) for row in self._api.ask("GET", "audit", after=after, limit=limit)]
        return RowTable("audit log", _AUDIT, rows, "The log is empty.")

    _rows = show

    def verify(self) -> int:
        """Check that no row was changed, removed or added, and return the number of rows."""
        return int(self._api.ask("GET", "audit/verify")["rows"])
