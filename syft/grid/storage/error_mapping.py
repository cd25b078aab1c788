"""Translate errors of files, SQLite and PostgreSQL to errors of the library."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from syft.exceptions import StorageError, StorageFullError

# Prefixes of the codes of a full and of a read-only store: of files, SQLite and PostgreSQL.
_FULL = ("ENOSPC", "EDQUOT", "EFBIG", "SQLITE_FULL", "53100", "53000", "54000", "54P01")
_READ_ONLY = ("EROFS", "EACCES", "EPERM", "SQLITE_READONLY", "25006", "42501")
_FULL_TEXT = "The store of this node is full ({why}). Nothing was stored. Delete objects, or ask the owner of the node."
_READ_ONLY_TEXT = "The store of this node is read-only ({why}). Nothing was stored. Ask the owner of the node."
_UNAVAILABLE = "The store of this node is not available ({why}). Nothing was stored. Try again later."


# Prefixes of error codes, with the fault and the advice; the first matching row applies.
_STARTUP_FAULTS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_IOERR"),
        "its file index.sqlite is damaged",
        "Keep a copy of the folder, check the disk, and restore a backup",
    ),
    (
        (*_READ_ONLY, "SQLITE_CANTOPEN", "SQLITE_PERM"),
        "this account has no write permission",
        "Check its owner and mode, and give the account of the node write permission",
    ),
    (("SQLITE_BUSY", "SQLITE_LOCKED"), "another program has locked it", "Stop that program, and start again"),
    (("28",), "the user or the password is wrong", "Correct the address"),
    (("3D000",), "the database does not exist", "Create it, or correct the address"),
    (("gaierror",), "its host name can't be resolved", "Correct the address"),
    (("SSL",), "its certificate is not trusted", "Name its authority in the address: ?sslrootcert=FILE"),
    (("",), "it can't be reached", "Check that the server is running, and check the address"),
)


def startup_error(error: BaseException, location: str) -> StorageError:
    """Return the error of a store that could not be opened, with the fault and the advice."""
    code = _code(error)
    what, advice = next((what, todo) for starts, what, todo in _STARTUP_FAULTS if code.startswith(starts))
    return StorageError(f"The store {location} can't be opened: {what} ({code}). {advice}. Nothing was changed.")


def _code(error: BaseException) -> str:
    """Return the code of an error; its text may contain data or a password."""
    if isinstance(error, OSError):
        return errno.errorcode.get(error.errno or 0, type(error).__name__)
    original = getattr(error, "orig", None) or error
    below = original.__cause__ or original.__context__
    if isinstance(below, OSError):  # a driver that could not connect
        return _code(below)
    named = getattr(original, "sqlite_errorname", None) or sqlstate(original)
    return str(named or type(original).__name__)


def translate(error: BaseException) -> StorageError:
    """Return the library's error for one of files or databases; only its code is shown, its text may contain data."""
    code = _code(error)
    if code.startswith(_FULL):
        return StorageFullError(_FULL_TEXT.format(why=code))
    return StorageError((_READ_ONLY_TEXT if code.startswith(_READ_ONLY) else _UNAVAILABLE).format(why=code))


def sqlstate(original: object) -> str:
    """Return the SQLSTATE of a PostgreSQL error; "" if it has none."""
    first = original.args[0] if isinstance(original, Exception) and original.args else None
    return str(first.get("C", "")) if isinstance(first, dict) else ""


@contextmanager
def translated() -> Iterator[None]:
    """Raise OSError and SQLAlchemy errors as errors of the library."""
    try:
        yield
    except (OSError, exc.SQLAlchemyError) as error:
        raise translate(error) from error
