"""Folders that exist as long as a node: for its values and keys if it has no store.

A node that is killed can't delete them. The next node of the same user does: it takes the lock of a folder, which the
system releases when a process ends for any reason.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from syft.grid.private_files import is_open, lock

logger = logging.getLogger("syft.node")
# Exists in a folder from the moment on that it is locked, so that one that is just being made is not deleted.
_MARK = ".locked"


@contextlib.contextmanager
def passing_folder(prefix: str, parent: str | None = None) -> Iterator[str]:
    """Make a folder that is deleted at the end of the block, or, if this process is killed, by the next call."""
    parent = tempfile.gettempdir() if parent is None else parent
    remove_left(prefix, parent)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as made:
        handle = os.open(made, os.O_RDONLY)
        try:
            lock(handle)
            (Path(made) / _MARK).touch(0o600)
            yield made
        finally:
            os.close(handle)


def remove_left(prefix: str, parent: str) -> None:
    """Delete the folders of processes of this user that were killed."""
    if sys.platform == "win32":
        return
    with os.scandir(parent) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(prefix)]
    for name in names:
        with contextlib.suppress(OSError):  # another process deleted it first, or it is not a folder of this user
            _remove(Path(parent) / name)


def _remove(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        facts = os.fstat(handle)
        if facts.st_uid != os.geteuid() or is_open(facts):
            return
        os.stat(_MARK, dir_fd=handle, follow_symlinks=False)
        if lock(handle):
            shutil.rmtree(folder)  # does not follow links
            logger.info("Deleted %s, which a killed process left behind", folder)
    finally:
        os.close(handle)
