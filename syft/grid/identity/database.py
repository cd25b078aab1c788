"""The database of a node's identity: users and revoked tokens. The command line may use it beside the node."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from syft.exceptions import SyftError
from syft.grid.private_files import new_file, private_folder

DATABASE_FILE = "identity.sqlite3"
VERSION = 1
# Seconds to wait while another process writes.
_LOCK_TIMEOUT = 10.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS revoked (
    token_id TEXT PRIMARY KEY, expires REAL NOT NULL, user TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS revoked_by_user ON revoked (user);
CREATE INDEX IF NOT EXISTS revoked_by_expiry ON revoked (expires);
CREATE TABLE IF NOT EXISTS generations (user TEXT PRIMARY KEY, generation INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS users (
    user TEXT PRIMARY KEY, role TEXT NOT NULL, password TEXT NOT NULL, added REAL NOT NULL
) WITHOUT ROWID;
"""


class Database:
    """One SQLite connection, used by one thread at a time. Committed transactions survive a power failure.

    Raises:
        SyftError: the file is damaged, or of a later version.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path: Path = private_folder(folder) / DATABASE_FILE
        new_file(self.path, b"")  # SQLite creates its other files with the mode of this one
        self._lock = threading.RLock()
        self._depth = 0
        self._connection = sqlite3.connect(
            self.path, timeout=_LOCK_TIMEOUT, isolation_level=None, check_same_thread=False, cached_statements=32
        )
        try:
            self._prepare()
        except (sqlite3.Error, SyftError) as error:
            self._connection.close()
            if isinstance(error, SyftError):
                raise
            raise SyftError(f"{self.path} can't be used ({error}). Restore it from a backup.") from error

    def _prepare(self) -> None:
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "trusted_schema=OFF", "secure_delete=ON"):
            self._connection.execute(f"PRAGMA {pragma}").fetchall()
        with self.transaction():
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            if version > VERSION:
                raise SyftError(f"{self.path} was written by a later version of resyft. Upgrade resyft.")
            if version < VERSION:
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA user_version = {VERSION}")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a block as one transaction; a nested transaction joins the outer one."""
        with self._lock:
            if self._depth == 0:
                self._connection.execute("BEGIN IMMEDIATE")
            self._depth += 1
            done = False
            try:
                yield
                done = True
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self._end(done)

    def _end(self, done: bool) -> None:
        try:
            if done:
                self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:  # the block or the commit failed
                self._connection.execute("ROLLBACK")

    def execute(self, statement: str, *values: object) -> int:
        """Run a statement that writes, and return the number of changed rows."""
        with self.transaction():
            return self._connection.execute(statement, values).rowcount

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self._lock:
            return self._connection.execute(statement, values).fetchall()

    def close(self) -> None:
        """Close the file; idempotent."""
        with self._lock:
            self._connection.close()
