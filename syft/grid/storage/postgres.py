"""The store in PostgreSQL: everything, including large values, is in the database."""

from __future__ import annotations

import importlib.util
import io
import ipaddress
import ssl
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import sqlalchemy as sa

from syft.exceptions import DependencyError, StorageError
from syft.grid.storage import tables
from syft.grid.storage.blobs import Blobs, checked_name
from syft.grid.storage.error_mapping import sqlstate, translated
from syft.grid.storage.interface import Bytes
from syft.grid.storage.sql import SqlStorage

SCHEMES = ("postgresql://", "postgres://", "postgresql+pg8000://")
# Bytes per row, small because the driver holds several copies of the data it sends.
CHUNK_BYTES = 4 << 20
# Milliseconds to wait until the server notices that the previous node has disconnected.
_LOCK_TIMEOUT_MS = 2000
_LOCK = 0x5F57  # distinguishes it from locks of other programs in the same database


class PostgresStorage(SqlStorage):
    """The tables of one schema of a database.

    Values above 64 KB are rows of a separate table, in chunks of 4 MB: one field could hold no more than 1 GB. The lock
    that reserves a schema for one node belongs to the connection, so a new connection acquires it first.

    Args:
        url: `postgresql://user:password@host:port/database`. Connections to other machines use TLS with a verified
            certificate; `?sslrootcert=file` names the authority, `?sslmode=disable` turns TLS off.
    """

    def __init__(self, url: str) -> None:
        if importlib.util.find_spec("pg8000") is None:
            raise DependencyError("pg8000", "postgres")
        with translated():
            engine = _engine(url)
        try:
            super().__init__(engine, RowBlobs())
        except Exception:
            engine.dispose()
            raise


class RowBlobs(Blobs):
    """Values in chunks, as rows of the database: a backup of the database is complete.

    They are sent and read by COPY in binary; as parameters they would be encoded as hex digits.
    """

    def within(self, connection: sa.Connection, name: str, value: Bytes) -> None:
        """Write the chunks."""
        view = memoryview(value)

        def stream() -> Iterator[bytes | memoryview]:
            yield _SIGNATURE
            for number, start in enumerate(range(0, len(view), CHUNK_BYTES)):
                data = view[start : start + CHUNK_BYTES]
                yield _ROW.pack(3, len(name), name.encode(), 4, number, len(data))
                yield bytes(data)
            yield _END

        _copy(connection, "COPY chunks (blob, number, data) FROM STDIN WITH (FORMAT binary)", stream())

    def drop_within(self, connection: sa.Connection, name: str) -> None:
        """Remove the chunks."""
        connection.execute(tables.chunks.delete().where(tables.chunks.c.blob == name))

    def size(self, connection: sa.Connection, name: str) -> int | None:
        """Return the sum of the chunk lengths, which the database knows without reading the chunks."""
        total = sa.func.sum(sa.func.length(tables.chunks.c.data))
        found: Any = connection.execute(sa.select(total).where(tables.chunks.c.blob == name)).scalar()
        return None if found is None else int(found)

    def read(self, connection: sa.Connection, name: str, size: int) -> memoryview | None:
        """Read the chunks, one at a time."""
        memory = np.empty(size, np.uint8).data
        filled = 0
        for number in range(-(-size // CHUNK_BYTES)):
            which = f"blob = '{checked_name(name)}' AND number = {number}"
            out = io.BytesIO()
            _copy(connection, f"COPY (SELECT data FROM chunks WHERE {which}) TO STDOUT WITH (FORMAT binary)", out)  # noqa: S608
            data = out.getbuffer()[len(_SIGNATURE) + 6 : -len(_END)]  # skip the field count and the field length
            if filled + len(data) > size:
                return None
            memory[filled : filled + len(data)] = data
            filled += len(data)
        return memory if filled == size else None


# The binary format of COPY: a signature, rows (field count, then length and bytes of each field), a trailer.
_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_ROW = struct.Struct(">hi32siii")
_END = struct.pack(">h", -1)


def _copy(connection: sa.Connection, command: str, stream: Any) -> None:
    import pg8000

    cursor: Any = connection.connection.cursor()
    try:
        cursor.execute(command, stream=stream)
    except pg8000.Error as error:
        raise sa.exc.DatabaseError("COPY", None, error) from error
    finally:
        cursor.close()


def _engine(url: str) -> sa.Engine:
    try:
        parsed = sa.make_url("postgresql+pg8000://" + url.partition("://")[2])
        query: dict[str, Any] = dict(parsed.query)
        options = {"ssl_context": _context(parsed.host, query.pop("sslmode", ""), query.pop("sslrootcert", None))}
        if "unix_sock" in query:
            options["unix_sock"] = query.pop("unix_sock")
        if query:
            raise ValueError(f"unknown option {next(iter(query))!r}")
    except (ValueError, sa.exc.ArgumentError) as error:
        reason = error if type(error) is ValueError else "it can't be read"
        raise StorageError(
            f"Invalid address of the database: {reason}. Use postgresql://user:password@host/database."
        ) from None
    engine = sa.create_engine(
        parsed.set(query={}),
        pool_size=1,
        max_overflow=0,
        pool_pre_ping=True,
        hide_parameters=True,
        connect_args=options,
    )
    sa.event.listen(engine, "connect", _acquire_lock)
    return engine


def _context(host: str | None, mode: str, authority: Any) -> ssl.SSLContext | None:
    """Return the TLS context for a host; None on this machine."""
    if mode not in ("", "disable", "verify-full"):
        raise ValueError("sslmode must be verify-full or disable")
    if mode == "disable" or (not mode and _is_local(host)):
        return None
    return ssl.create_default_context(cafile=authority)


def _is_local(host: str | None) -> bool:
    if host in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(str(host)).is_loopback
    except ValueError:
        return False


def _acquire_lock(connection: Any, record: object) -> None:
    import pg8000

    cursor = connection.cursor()
    try:
        cursor.execute(f"set lock_timeout = {_LOCK_TIMEOUT_MS}")
        cursor.execute(f"select pg_advisory_lock({_LOCK}, hashtext(current_schema()))")
        cursor.execute("set lock_timeout = 0")
        connection.commit()
    except pg8000.DatabaseError as error:
        if sqlstate(error) != "55P03":
            raise
        raise StorageError(
            "This database is in use as the store of another running node. Stop that node first, or use another "
            "database or schema."
        ) from None
