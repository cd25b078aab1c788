"""The store without a server: SQLite in a folder, with large values as files beside it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from syft.core.id_provider import ObjectId
from syft.exceptions import StorageError, StorageFullError
from syft.grid.private_files import lock, sync_folder
from syft.grid.storage.blobs import FileBlobs
from syft.grid.storage.error_mapping import translated
from syft.grid.storage.sql import SqlStorage

INDEX, LOCK, VALUES, ASIDE, RESERVE = "index.sqlite", "lock", "values", "damaged", "ballast"
_RESERVE_BYTES = 512 * 1024
# A commit is on disk when it returns; the write-ahead log stays small; deleted data is overwritten.
_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "wal_autocheckpoint=256",
    "journal_size_limit=1048576",
    "secure_delete=ON",
    "trusted_schema=OFF",
)


class EmbeddedStorage(SqlStorage):
    """A folder: an index in SQLite, values above 64 KB as files, and a lock for one process.

    A transaction is on disk when it ends (WAL, synchronous=FULL). A small reserve file is deleted when the disk is
    full, so that objects can still be deleted.

    Args:
        folder: the folder; it is created with mode 0700 if it does not exist.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        with translated():
            _prepare(self.folder)
            self._lock: int | None = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not lock(self._lock):
                raise StorageError(
                    f"The store {folder} is in use by another running node. Stop that node first, or use another "
                    "folder."
                )
            with translated():
                blobs = FileBlobs(self.folder / VALUES, self.folder / ASIDE)
            engine = _engine(self.folder / INDEX)
            try:
                super().__init__(engine, blobs)
            except Exception:
                engine.dispose()
                raise
            self._create_reserve()
        except Exception:
            self._release()
            raise

    def remove(self, obj_id: ObjectId, stamp: str | None = None) -> bool:
        """Remove an object, if a stamp is given only that version; works on a full disk too."""
        try:
            found = super().remove(obj_id, stamp)
        except StorageFullError:
            self._make_room()
            found = super().remove(obj_id, stamp)
        self._create_reserve()
        return found

    def _make_room(self) -> None:
        """Free disk space: delete the reserve file and truncate the write-ahead log."""
        (self.folder / RESERVE).unlink(missing_ok=True)
        with self.transaction() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    def _create_reserve(self) -> None:
        path = self.folder / RESERVE
        try:
            if path.exists() or shutil.disk_usage(self.folder).free < 4 * _RESERVE_BYTES:
                return
            path.touch(mode=0o600)
            path.write_bytes(os.urandom(_RESERVE_BYTES))  # zeros might be stored sparsely
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the store and release the folder."""
        super().close()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _prepare(folder: Path) -> None:
    if not folder.exists():
        folder.mkdir(mode=0o700, parents=True)
        sync_folder(folder.parent)
    elif not folder.is_dir():
        raise StorageError(f"The store {folder} is not a folder. Choose another path.")
    elif (folder / INDEX).exists() or not any(folder.iterdir()):
        folder.chmod(0o700)  # a folder with other files keeps its mode; the files of the store are private anyway
    # SQLite creates its other files with the mode of this one.
    os.close(os.open(folder / INDEX, os.O_RDWR | os.O_CREAT, 0o600))


def _engine(path: Path) -> sa.Engine:
    url = sa.URL.create("sqlite", database=str(path))
    engine = sa.create_engine(
        url,
        poolclass=sa.QueuePool,
        pool_size=1,
        max_overflow=0,
        hide_parameters=True,
        connect_args={"check_same_thread": False, "timeout": 10},
    )

    @sa.event.listens_for(engine, "connect")
    def _configure(connection: Any, record: object) -> None:
        try:
            for pragma in _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
        except sqlite3.Error:  # a damaged file
            connection.close()
            raise

    return engine
