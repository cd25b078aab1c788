"""Open a store by what an operator types: a folder, or the address of a database."""

from __future__ import annotations

from pathlib import Path

from syft.grid.storage.embedded import EmbeddedStorage
from syft.grid.storage.interface import Storage
from syft.grid.storage.postgres import SCHEMES, PostgresStorage


def open_storage(where: str | Path) -> Storage:
    """Open a store, making it if it is not there.

    Args:
        where: a folder, or `postgresql://user:password@host/database`.

    Raises:
        StorageError: it can't be used, or another node uses it.
    """
    if isinstance(where, str) and where.startswith(SCHEMES):
        return PostgresStorage(where)
    return EmbeddedStorage(where)
