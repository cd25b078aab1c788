"""Open a store by what an operator types: a folder, or the address of a database."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from syft.exceptions import StorageError, StorageFullError
from syft.grid.storage.embedded import EmbeddedStorage
from syft.grid.storage.error_mapping import at_start
from syft.grid.storage.interface import Storage
from syft.grid.storage.postgres import SCHEMES, PostgresStorage


def open_storage(where: str | Path) -> Storage:
    """Open a store, making it if it is not there.

    Args:
        where: a folder, or `postgresql://user:password@host/database`.

    Raises:
        StorageError: it can't be used, or another node uses it.
    """
    is_database = isinstance(where, str) and where.startswith(SCHEMES)
    try:
        return PostgresStorage(str(where)) if is_database else EmbeddedStorage(where)
    except StorageError as error:
        if error.__cause__ is None or isinstance(error, StorageFullError):  # a text of our own, which says all
            raise
        raise at_start(error.__cause__, _shown(str(where)) if is_database else str(where)) from error.__cause__


def _shown(url: str) -> str:
    """Return the address of a database as it may be printed: without user and password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
