"""What went wrong below a store, in the words of the library: one table for files, SQLite and PostgreSQL."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from syft.exceptions import StorageError, StorageFullError

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_FULL = "There is no room left in the store of this node ({why}). Nothing was kept; delete something, or ask its owner."
_SHUT = "The store of this node can't be written to ({why}). Nothing was kept; ask its owner."
_LOST = "The store of this node can't be used now ({why}). Nothing was kept; try again later, or ask its owner."


def of_os(error: OSError) -> StorageError:
    """Translate an error of the file system."""
    why = errno.errorcode.get(error.errno or 0, type(error).__name__)
    if error.errno in _NO_ROOM:
        return StorageFullError(_FULL.format(why=why))
    return StorageError((_SHUT if error.errno in _READ_ONLY else _LOST).format(why=why))


def of_database(error: exc.SQLAlchemyError) -> StorageError:
    """Translate an error of a database; its text may show what was written, so only its name is told."""
    original = getattr(error, "orig", None)
    if isinstance(original, sqlite3.Error):
        why = getattr(original, "sqlite_errorname", None) or type(original).__name__
        if why == "SQLITE_FULL":
            return StorageFullError(_FULL.format(why=why))
        return StorageError((_SHUT if why.startswith("SQLITE_READONLY") else _LOST).format(why=why))
    state = sqlstate(original)
    if state in ("53100", "53000", "54000", "54P01"):
        return StorageFullError(_FULL.format(why=f"PostgreSQL {state}"))
    if state in ("25006", "42501"):
        return StorageError(_SHUT.format(why=f"PostgreSQL {state}"))
    return StorageError(_LOST.format(why=f"PostgreSQL {state}" if state else type(original or error).__name__))


def sqlstate(original: object) -> str:
    """Return the code of an error of PostgreSQL; "" if it has none."""
    first = original.args[0] if isinstance(original, Exception) and original.args else None
    return str(first.get("C", "")) if isinstance(first, dict) else ""


@contextmanager
def translated() -> Iterator[None]:
    """Raise errors from below as errors of the library."""
    try:
        yield
    except OSError as error:
        raise of_os(error) from error
    except exc.SQLAlchemyError as error:
        raise of_database(error) from error
