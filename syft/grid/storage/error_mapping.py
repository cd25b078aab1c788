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


# What is wrong with a store that can't be opened, by how its code begins, and what to do; the first that fits counts.
_AT_START: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_IOERR"),
        "its file index.sqlite is damaged",
        "Keep a copy of the folder, check the disk, and put a backup in its place",
    ),
    (
        ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "EACCES", "EPERM", "EROFS", "42501", "25006"),
        "this account may not write to it",
        "Look whose it is, and let the account of the node have it",
    ),
    (("SQLITE_BUSY", "SQLITE_LOCKED"), "another program holds it", "End that program, and start again"),
    (("28",), "it refuses this user or password", "Check them in the address"),
    (("3D000",), "it has no database of this name", "Make it, or correct the address"),
    (("gaierror",), "its host is not known", "Correct the address"),
    (("SSL",), "its certificate is not trusted", "Name its authority in the address: ?sslrootcert=FILE"),
    (("",), "it can't be reached", "Check that it runs, and that this is its address"),
)


def at_start(error: BaseException, place: str) -> StorageError:
    """Say why a store could not be opened: which one, what is wrong with it and what to do.

    Args:
        error: what was raised below.
        place: the folder, or the address of the database without its password.
    """
    code = _code(error)
    what, advice = next((what, todo) for starts, what, todo in _AT_START if code.startswith(starts))
    return StorageError(f"The store {place} can't be opened: {what} ({code}). {advice}; nothing was changed.")


def _code(error: BaseException) -> str:
    """Return the name of an error; its text may show what was written, or a password."""
    if isinstance(error, OSError):
        return errno.errorcode.get(error.errno or 0, type(error).__name__)
    original = getattr(error, "orig", None) or error
    below = original.__cause__ or original.__context__
    if isinstance(below, OSError):  # a driver that could not connect
        return _code(below)
    named = getattr(original, "sqlite_errorname", None) or sqlstate(original)
    return str(named or type(original).__name__)


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
