"""Where large values are: in files of a folder, or in rows of the database.

Files are complete before their row is written, and are removed after it is gone; so a crash leaves at most files that
no row names, which are removed at the next start. Rows come and go with the transaction.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from syft.grid.storage.interface import Bytes

_NAME = re.compile(r"[0-9a-f]{32}")
_ONE_WRITE = 1 << 30  # Linux writes no more at once


def checked_name(name: str) -> str:
    """Return a name that is one of ours; others are refused: they might name another file."""
    if not _NAME.fullmatch(name):
        raise ValueError("a name of a value is 32 hex digits")
    return name


class Blobs:
    """Large values by name; names are 32 random hex digits."""

    def before(self, name: str, value: Bytes) -> None:
        """Do what can be done before the transaction that names a value."""

    def within(self, connection: sa.Connection, name: str, value: Bytes) -> None:
        """Do what belongs to the transaction that names a value."""

    def drop_within(self, connection: sa.Connection, name: str) -> None:
        """Do what belongs to the transaction that takes a name away."""

    def drop_after(self, name: str) -> None:
        """Do what is left after the transaction that took a name away, or after one that failed to name it."""

    def size(self, connection: sa.Connection, name: str) -> int | None:
        """Return how many bytes a value has, without reading it; None if it is not there."""
        raise NotImplementedError(f"{type(self).__name__} must say how large a value is")

    def read(self, connection: sa.Connection, name: str, size: int) -> memoryview | None:
        """Return a value in memory of its own; None if it is not there, or has another size."""
        raise NotImplementedError(f"{type(self).__name__} must say how to read a value")

    def file(self, name: str) -> Path | None:
        """Return the file of a value; None if it is not in one."""
        return None

    def set_aside(self, name: str) -> None:
        """Put a damaged value where nobody looks for one, for its owner to look at."""

    def sweep(self, known: Collection[str]) -> int:
        """Remove what no row names; returns how many."""
        return 0


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class FileBlobs(Blobs):
    """Values in files of a folder.

    Args:
        folder: the folder; it is made if it is not there.
        aside: the folder for damaged ones.
    """

    def __init__(self, folder: Path, aside: Path) -> None:
        self.folder = folder
        self.aside = aside
        for each in (folder, aside):
            each.mkdir(mode=0o700, exist_ok=True)

    def path(self, name: str) -> Path:
        """Return the file of a name."""
        return self.folder / checked_name(name)

    def before(self, name: str, value: Bytes) -> None:
        """Write a file: complete, and on disk, before it has its name."""
        path = self.path(name)
        unfinished = path.with_suffix(".new")
        try:
            handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
            try:
                left = memoryview(value).cast("B") if len(value) else memoryview(b"")
                while left:
                    left = left[os.write(handle, left[:_ONE_WRITE]) :]
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
        """Ask the file system."""
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
                while filled < size and (count := file.readinto(memory[filled : filled + _ONE_WRITE])):
                    filled += count
        except FileNotFoundError:
            return None
        return memory if filled == size else None

    def file(self, name: str) -> Path | None:
        """Return the file of a value."""
        return self.path(name)

    def set_aside(self, name: str) -> None:
        """Move the file away."""
        path = self.path(name)
        if path.exists():
            path.rename(self.aside / name)
            sync_folder(self.aside)
            sync_folder(self.folder)

    def sweep(self, known: Collection[str]) -> int:
        """Remove the files that no row names: what was being written when the node ended."""
        strays = [path for path in self.folder.iterdir() if path.name not in known]
        for path in strays:
            path.unlink()
        return len(strays)
