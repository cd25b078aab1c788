"""The store that needs no server: SQLite in a folder of its own, with large values as files beside it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from syft.core.id_provider import ObjectId
from syft.exceptions import StorageError, StorageFullError
from syft.grid.storage.blobs import FileBlobs, sync_folder
from syft.grid.storage.error_mapping import translated
from syft.grid.storage.sql import SqlStorage

INDEX, LOCK, VALUES, ASIDE, BALLAST = "index.sqlite", "lock", "values", "damaged", "ballast"
_BALLAST_BYTES = 512 * 1024
# A commit is on disk when it returns; the log of changes stays small; what is deleted is overwritten.
_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "wal_autocheckpoint=256",
    "journal_size_limit=1048576",
    "secure_delete=ON",
    "trusted_schema=OFF",
)


class EmbeddedStorage(SqlStorage):
    """A folder: an index in SQLite, values from 64 KB on as files, and a lock for one process.

    A transaction is on disk when it ends (WAL, synchronous=FULL). A small file of ballast is given up when the disk is
    full, so that objects can still be deleted.

    Args:
        folder: where; it is made if it is not there, for its owner only.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        with translated():
            _prepare(self.folder)
            self._lock = _Lock(self.folder / LOCK, self.folder)
        try:
            with translated():
                blobs = FileBlobs(self.folder / VALUES, self.folder / ASIDE)
            super().__init__(_engine(self.folder / INDEX), blobs)
            self._take_ballast()
        except Exception:
            self._lock.release()
            raise

    def remove(self, obj_id: ObjectId, stamp: str | None = None) -> bool:
        """Remove an object, or only the one with a stamp; works on a full disk too."""
        try:
            found = super().remove(obj_id, stamp)
        except StorageFullError:
            self._make_room()
            found = super().remove(obj_id, stamp)
        self._take_ballast()
        return found

    def _make_room(self) -> None:
        """Give up the ballast, and what SQLite has written down twice."""
        (self.folder / BALLAST).unlink(missing_ok=True)
        with self.transaction() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    def _take_ballast(self) -> None:
        path = self.folder / BALLAST
        try:
            if path.exists() or shutil.disk_usage(self.folder).free < 4 * _BALLAST_BYTES:
                return
            path.touch(mode=0o600)
            path.write_bytes(os.urandom(_BALLAST_BYTES))  # zeros might take no room
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the folder."""
        super().close()
        self._lock.release()


def _prepare(folder: Path) -> None:
    if not folder.exists():
        folder.mkdir(mode=0o700, parents=True)
        sync_folder(folder.parent)
    elif not folder.is_dir():
        raise StorageError(f"{folder} is not a folder, so it can't be the store of a node.")
    elif (folder / INDEX).exists() or not any(folder.iterdir()):
        folder.chmod(0o700)  # one with other things in it is not ours to close; our own files are closed anyway
    # SQLite gives its other files the mode of this one.
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
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")

    return engine


class _Lock:
    """A lock that goes with its process, whatever becomes of that.

    Args:
        path: the file.
        folder: what it stands for.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self._handle: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _take(self._handle)
        except OSError:
            os.close(self._handle)
            raise StorageError(
                f"The store {folder} is used by another node that runs now. Stop that one first, or give this one a "
                "folder of its own."
            ) from None

    def release(self) -> None:
        """Let the next process have it."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def _take(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _take(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
