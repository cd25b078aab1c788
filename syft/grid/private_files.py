"""Files that only this user may read, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

__all__ = ["is_open", "new_file", "private_folder", "replace_file"]


def is_open(status: os.stat_result) -> bool:
    """Say whether others than the user that a file belongs to may do something with it."""
    return os.name == "posix" and bool(stat.S_IMODE(status.st_mode) & 0o077)


def private_folder(folder: str | os.PathLike[str]) -> Path:
    """Return a folder; what is not there of its path is made, and then only this user may look into it."""
    path = Path(folder)
    for part in (*reversed(path.parents), path):  # the mode of `mkdir(parents=True)` is that of the last one only
        part.mkdir(mode=0o700, exist_ok=True)
    return path


def new_file(path: Path, contents: bytes) -> bool:
    """Write a file that only this user may read; say whether it was not there yet.

    One that is there stays as it is, also when two processes come here at the same time.
    """
    draft = _draft(path, contents, 0o600)
    try:
        os.link(draft, path)
    except OSError:
        if path.exists():
            return False
        draft.replace(path)  # a file system without links
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(path.parent)
    return True


def replace_file(path: Path, contents: bytes, mode: int = 0o600) -> None:
    """Write a file in the place of one that may be there."""
    draft = _draft(path, contents, mode)
    try:
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _draft(path: Path, contents: bytes, mode: int) -> Path:
    """Write a file next to another one; it is never more open than it will be."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(contents)
            file.flush()
            os.fsync(file.fileno())
    except OSError:  # a full disk
        draft.unlink(missing_ok=True)
        raise
    return draft


def _sync_folder(folder: Path) -> None:
    """Let the names in a folder survive a loss of power, where the system can do that."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
