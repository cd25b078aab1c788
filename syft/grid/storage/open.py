"""Open a store by its location: a folder, or the URL of a database."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from syft.exceptions import StorageError, StorageFullError
from syft.grid.storage.embedded import EmbeddedStorage
from syft.grid.storage.error_mapping import startup_error
from syft.grid.storage.interface import Storage
from syft.grid.storage.postgres import SCHEMES, PostgresStorage


def open_storage(where: str | Path) -> Storage:
    """Open a store; it is created if it does not exist.

    Args:
        where: a folder, or `postgresql://user:password@host/database`.

    Raises:
        StorageError: it can't be used, or another node uses it.
    """
    is_database = isinstance(where, str) and where.startswith(SCHEMES)
    try:
        return PostgresStorage(str(where)) if is_database else EmbeddedStorage(where)
    except StorageError as error:
        if error.__cause__ is None or isinstance(error, StorageFullError):  # already a complete message
            raise
        raise startup_error(error.__cause__, _redacted(str(where)) if is_database else str(where)) from error.__cause__


def _redacted(url: str) -> str:
    """Return the URL of a database without user and password, for messages."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
