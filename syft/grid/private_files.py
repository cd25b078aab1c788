"""Atomic writes of files that only this user may read, and locks of files."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
from pathlib import Path

if sys.platform == "win32":  # pragma: no cover
    import msvcrt
else:
    import fcntl

__all__ = ["is_open", "lock", "new_file", "private_folder", "replace_file", "sync_folder"]


def is_open(status: os.stat_result) -> bool:
    """Return whether users other than its owner have access to a file."""
    return os.name == "posix" and bool(stat.S_IMODE(status.st_mode) & 0o077)


def private_folder(folder: str | os.PathLike[str]) -> Path:
    """Return a folder; missing parts of its path are created with mode 0700."""
    path = Path(folder)
    for part in (*reversed(path.parents), path):  # `mkdir(parents=True)` applies the mode to the last folder only
        part.mkdir(mode=0o700, exist_ok=True)
    return path


def new_file(path: Path, contents: bytes) -> bool:
    """Create a file that only this user may read; returns whether it did not exist.

    An existing file is not changed, also if two processes create it at the same time.
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
    with contextlib.suppress(OSError):  # not supported everywhere
        sync_folder(path.parent)
    return True


def replace_file(path: Path, contents: bytes, mode: int = 0o600) -> None:
    """Write a file, replacing an existing one."""
    draft = _draft(path, contents, mode)
    try:
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not supported everywhere
        sync_folder(path.parent)


def _draft(path: Path, contents: bytes, mode: int) -> Path:
    """Write a temporary file next to another one, with its final mode from the start."""
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


def sync_folder(folder: Path) -> None:
    """Flush the directory entries of a folder to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock(handle: int) -> bool:
    """Lock an open file for this process, until it is closed; False if another process has locked it."""
    try:
        if sys.platform == "win32":  # pragma: no cover
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
