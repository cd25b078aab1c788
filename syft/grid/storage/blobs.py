"""Storage of large values, in files of a folder or in rows of the database.

Files are complete before their row is written and are removed after it is deleted, so a crash leaves at most files
that no row references; these are removed at the next start. Rows follow the transaction.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from syft.grid.private_files import sync_folder
from syft.grid.storage.interface import Bytes

_NAME = re.compile(r"[0-9a-f]{32}")
_MAX_WRITE_BYTES = 1 << 30  # the maximum of one write on Linux is about 2 GiB


def checked_name(name: str) -> str:
    """Return a valid name; others are refused, because they might name another file."""
    if not _NAME.fullmatch(name):
        raise ValueError("the name of a value must be 32 hex digits")
    return name


class Blobs:
    """Large values by name; names are 32 random hex digits."""

    def before(self, name: str, value: Bytes) -> None:
        """Write the part that precedes the transaction which references a value."""

    def within(self, connection: sa.Connection, name: str, value: Bytes) -> None:
        """Write the part that belongs to the transaction which references a value."""

    def drop_within(self, connection: sa.Connection, name: str) -> None:
        """Remove the part that belongs to the transaction which removes a reference."""

    def drop_after(self, name: str) -> None:
        """Remove the rest after the reference was removed, or after the transaction that added it failed."""

    def size(self, connection: sa.Connection, name: str) -> int | None:
        """Return the size of a value in bytes without reading it; None if it does not exist."""
        raise NotImplementedError(f"{type(self).__name__} must implement size()")

    def read(self, connection: sa.Connection, name: str, size: int) -> memoryview | None:
        """Return a value in newly allocated memory; None if it does not exist or has another size."""
        raise NotImplementedError(f"{type(self).__name__} must implement read()")

    def file(self, name: str) -> Path | None:
        """Return the file of a value; None if it is not in a file."""
        return None

    def set_aside(self, name: str) -> None:
        """Quarantine a damaged value for inspection by the owner."""

    def sweep(self, referenced: Collection[str]) -> int:
        """Remove the values that no row references; returns their number."""
        return 0


class FileBlobs(Blobs):
    """Values in files of a folder."""

    def __init__(self, folder: Path, aside: Path) -> None:
        self.folder = folder
        self.aside = aside
        for each in (folder, aside):
            each.mkdir(mode=0o700, exist_ok=True)

    def path(self, name: str) -> Path:
        """Return the file of a name."""
        return self.folder / checked_name(name)

    def before(self, name: str, value: Bytes) -> None:
        """Write a file; it is complete and on disk before it gets its name."""
        path = self.path(name)
        unfinished = path.with_suffix(".new")
        try:
            handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
            try:
                left = memoryview(value).cast("B") if len(value) else memoryview(b"")
                while left:
                    left = left[os.write(handle, left[:_MAX_WRITE_BYTES]) :]
                os.fsync(handle)
            finally:
                os.close(handle)
            unfinished.rename(path)
            sync_folder(self.folder)
        except OSError:
            unfinished.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            raise

    def drop_after(self, name: str) -> None:
        """Remove the file."""
        self.path(name).unlink(missing_ok=True)

    def size(self, connection: sa.Connection, name: str) -> int | None:
        """Return the size of the file."""
        try:
            return self.path(name).lstat().st_size
        except (FileNotFoundError, ValueError):
            return None

    def read(self, connection: sa.Connection, name: str, size: int) -> memoryview | None:
        """Read the file."""
        try:
            with self.path(name).open("rb", buffering=0) as file:
                if os.fstat(file.fileno()).st_size != size:
                    return None
                memory = np.empty(size, np.uint8).data
                filled = 0
                while filled < size and (count := file.readinto(memory[filled : filled + _MAX_WRITE_BYTES])):
                    filled += count
        except FileNotFoundError:
            return None
        return memory if filled == size else None

    def file(self, name: str) -> Path | None:
        """Return the file of a value."""
        return self.path(name)

    def set_aside(self, name: str) -> None:
        """Move the file to the quarantine folder."""
        path = self.path(name)
        if path.exists():
            path.rename(self.aside / name)
            sync_folder(self.aside)
            sync_folder(self.folder)

    def sweep(self, referenced: Collection[str]) -> int:
        """Remove the files that no row references: those of unfinished writes."""
        strays = [path for path in self.folder.iterdir() if path.name not in referenced]
        for path in strays:
            path.unlink()
        return len(strays)
