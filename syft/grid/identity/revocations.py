"""Revocation of tokens before they expire, singly or all of a user."""

from __future__ import annotations

from syft.grid.identity.database import Database


class Revocations:
    """Revocations in the node's database; other processes with the same file see them at once. Thread-safe.

    Each user has a generation, a number that its tokens carry; revoking all of them increments it. No clock is
    involved, so a token issued right afterwards is valid.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, token_id: str, expires: float, user: str = "") -> bool:
        """Revoke a token until it has expired; returns True to the first caller only."""
        return self._database.execute("INSERT OR IGNORE INTO revoked VALUES (?, ?, ?)", token_id, expires, user) == 1

    def has(self, token_id: str) -> bool:
        """Return whether a token is revoked."""
        return bool(self._database.rows("SELECT 1 FROM revoked WHERE token_id = ?", token_id))

    def prune(self, before: float) -> int:
        """Remove tokens that expired before a time, and return their number."""
        return self._database.execute("DELETE FROM revoked WHERE expires < ?", before)

    def generation(self, user: str) -> int:
        """Return the valid token generation of a user; initially 0."""
        found = self._database.rows("SELECT generation FROM generations WHERE user = ?", user)
        return int(found[0][0]) if found else 0

    def advance(self, user: str) -> int:
        """Invalidate all present tokens of a user, and return the next generation."""
        statement = (
            "INSERT INTO generations VALUES (?, 1) ON CONFLICT (user) DO UPDATE SET generation = generation + 1 "
            "RETURNING generation"
        )
        with self._database.transaction():
            return int(self._database.rows(statement, user)[0][0])
