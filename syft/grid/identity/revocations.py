"""Tokens that are not good any more before they expire: revoked ones, all of a user."""

from __future__ import annotations

import threading
from typing import Protocol

from syft.grid.identity.database import Database

__all__ = ["MemoryRevocations", "Revocations", "StoredRevocations"]


class Revocations(Protocol):
    """What remembers them. Every method may be called by several threads at once.

    Each user has a generation, a number that its tokens carry; revoking all of them is going on to the next one.
    Clocks have no say in it, so a token that is issued right afterwards is good.
    """

    def add(self, token_id: str, expires: float, user: str = "") -> bool:
        """Remember a token until it has expired; say whether it was not there yet (one caller alone hears yes)."""
        ...

    def has(self, token_id: str) -> bool:
        """Say whether a token was added."""
        ...

    def prune(self, before: float) -> int:
        """Forget tokens that expired before a time, and return how many."""
        ...

    def generation(self, user: str) -> int:
        """Return the generation of tokens of a user that is good; at first 0."""
        ...

    def advance(self, user: str) -> int:
        """Make all tokens of a user so far void, and return the next generation."""
        ...


class MemoryRevocations:
    """Forgets everything at the end of the process: for tests, and for nodes that make a new key each time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: dict[str, float] = {}
        self._generations: dict[str, int] = {}

    def add(self, token_id: str, expires: float, user: str = "") -> bool:
        """Remember a token."""
        with self._lock:
            if token_id in self._tokens:
                return False
            self._tokens[token_id] = expires
            return True

    def has(self, token_id: str) -> bool:
        """Say whether a token was added."""
        return token_id in self._tokens

    def prune(self, before: float) -> int:
        """Forget tokens that expired before a time."""
        with self._lock:
            gone = [token_id for token_id, expires in self._tokens.items() if expires < before]
            for token_id in gone:
                del self._tokens[token_id]
            return len(gone)

    def generation(self, user: str) -> int:
        """Return the generation of tokens of a user that is good."""
        return self._generations.get(user, 0)

    def advance(self, user: str) -> int:
        """Make all tokens of a user so far void."""
        with self._lock:
            self._generations[user] = self._generations.get(user, 0) + 1
            return self._generations[user]


class StoredRevocations:
    """Survives restarts; other processes that open the same file see it at once.

    Args:
        database: the file of the node's identity.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, token_id: str, expires: float, user: str = "") -> bool:
        """Remember a token."""
        return self._database.execute("INSERT OR IGNORE INTO revoked VALUES (?, ?, ?)", token_id, expires, user) == 1

    def has(self, token_id: str) -> bool:
        """Say whether a token was added."""
        return bool(self._database.rows("SELECT 1 FROM revoked WHERE token_id = ?", token_id))

    def prune(self, before: float) -> int:
        """Forget tokens that expired before a time."""
        return self._database.execute("DELETE FROM revoked WHERE expires < ?", before)

    def generation(self, user: str) -> int:
        """Return the generation of tokens of a user that is good."""
        found = self._database.rows("SELECT generation FROM generations WHERE user = ?", user)
        return int(found[0][0]) if found else 0

    def advance(self, user: str) -> int:
        """Make all tokens of a user so far void."""
        statement = (
            "INSERT INTO generations VALUES (?, 1) ON CONFLICT (user) DO UPDATE SET generation = generation + 1 "
            "RETURNING generation"
        )
        with self._database.transaction():
            return int(self._database.rows(statement, user)[0][0])
