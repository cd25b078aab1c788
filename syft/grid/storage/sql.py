"""The store in an SQL database, for SQLite with files and for PostgreSQL."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from syft.core.id_provider import ObjectId
from syft.exceptions import StorageError
from syft.grid.storage import tables
from syft.grid.storage.blobs import Blobs
from syft.grid.storage.error_mapping import translated
from syft.grid.storage.interface import INLINE_BYTES, Bytes, Damaged, Item, Storage, checksum_of
from syft.grid.storage.records import RecordStore

logger = logging.getLogger("syft.grid")


class SqlStorage(Storage):
    """Objects and records in the tables of one database.

    All threads share one connection, one at a time: a store has a single writer, and the lock on the store belongs to
    the connection.
    """

    def __init__(self, engine: sa.Engine, blobs: Blobs) -> None:
        self._engine = engine
        self._blobs = blobs
        self._exclusive = threading.RLock()
        self._closed = False
        # The stamps of values in files whose checksums were verified.
        self._checked: set[str] = set()
        self.records = RecordStore(self.transaction)
        with self.transaction() as connection:
            tables.metadata.create_all(connection)
            self._check_layout(connection)
        with translated():
            self._recover()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Run a block in an exclusive transaction, which is on disk at the end of the block."""
        with self._exclusive, translated():
            if self._closed:
                raise StorageError("The store of this node is closed.")
            with self._engine.begin() as connection:
                yield connection

    def _check_layout(self, connection: sa.Connection) -> None:
        about = tables.about
        found = connection.execute(sa.select(about.c.value).where(about.c.name == "layout")).scalar()
        if found is None:
            connection.execute(about.insert(), {"name": "layout", "value": str(tables.LAYOUT)})
        elif found != str(tables.LAYOUT):
            raise StorageError(
                f"This store has layout {found}, this version reads layout {tables.LAYOUT}. Upgrade resyft."
            )

    # --- startup --------------------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Quarantine incomplete objects and remove files of unfinished writes."""
        whole: set[str] = set()
        with self.transaction() as connection:
            rows = connection.execute(sa.select(*tables.DESCRIPTION)).all()
            for row in rows:
                problem = self._problem(connection, row)
                if problem is not None:
                    self._set_aside(connection, row, problem)
                elif row.blob is not None:
                    whole.add(row.blob)
        removed = self._blobs.sweep(whole)
        if removed:
            logger.info("Removed %d unfinished files from the store.", removed)

    def _problem(self, connection: sa.Connection, row: Any) -> str | None:
        """Return the fault of a row that is visible without reading its value; None if there is none."""
        try:
            item = tables.item_of(row._mapping)
        except (ValueError, TypeError, KeyError) as error:
            return str(error) if type(error) is ValueError else "its description can't be read"
        if row.blob is None:
            return None
        size = self._blobs.size(connection, row.blob)
        if size == item.size:
            return None
        return "its value is missing" if size is None else f"its value has {size} bytes instead of {item.size}"

    def _set_aside(self, connection: sa.Connection, row: Any, reason: str) -> None:
        objects = tables.objects
        value = connection.execute(sa.select(objects.c.value).where(objects.c.key == row.key)).scalar()
        connection.execute(tables.damaged.delete().where(tables.damaged.c.stamp == row.stamp))
        connection.execute(
            tables.damaged.insert(), {"stamp": row.stamp, "id": row.id, "reason": reason, "value": value}
        )
        connection.execute(objects.delete().where(objects.c.key == row.key))
        if row.blob is not None:
            with contextlib.suppress(ValueError):  # an invalid name names no file
                self._blobs.set_aside(row.blob)
        logger.error("The stored object %s was quarantined: %s.", row.id[:80], reason)

    # --- objects --------------------------------------------------------------------------------------------

    def put(self, item: Item, value: Bytes, checksum: str | None = None) -> Item:
        """Write an object, replacing one with the same id."""
        stamp = secrets.token_hex(16)
        item = dataclasses.replace(
            item,
            size=len(value),
            checksum=checksum or checksum_of(value),
            stamp=stamp,
            created=item.created or time.time(),
        )
        blob = stamp if len(value) > INLINE_BYTES else None
        row = {**tables.row_of(item, blob), "value": bytes(value) if blob is None else None}
        with translated():
            if blob is not None:
                self._blobs.before(blob, value)
        try:
            with self.transaction() as connection:
                if blob is not None:
                    self._blobs.within(connection, blob, value)
                before = self._drop_row(connection, tables.objects.c.key == row["key"])
                connection.execute(tables.objects.insert(), row)
        except Exception:
            if blob is not None:
                self._drop_file(blob)
            raise
        for old in before:
            self._drop_file(old)
        return item

    def _drop_row(self, connection: sa.Connection, which: Any) -> list[str]:
        """Delete rows; returns the names of the values that are no longer referenced."""
        objects = tables.objects
        blobs = connection.execute(sa.select(objects.c.blob).where(which)).scalars().all()
        connection.execute(objects.delete().where(which))
        named = [blob for blob in blobs if blob is not None]
        for blob in named:
            self._blobs.drop_within(connection, blob)
        return named

    def _drop_file(self, blob: str) -> None:
        try:
            self._blobs.drop_after(blob)
        except (OSError, ValueError) as error:  # the next start removes it
            logger.warning("An old file of the store could not be removed: %s.", type(error).__name__)

    def amend(self, item: Item) -> Item:
        """Write the description of a stored object again."""
        objects = tables.objects
        which = (objects.c.key == tables.key_of(item.id)) & (objects.c.stamp == item.stamp)
        with self.transaction() as connection:
            found = connection.execute(sa.select(objects.c.blob).where(which)).all()
            if not found:
                raise StorageError(f"The store holds no object with id {item.id!r}, or the object has changed.")
            connection.execute(objects.update().where(which), tables.row_of(item, found[0].blob))
        return item

    def read(self, item: Item) -> memoryview:
        """Return the value of an object, after verifying its checksum."""
        objects = tables.objects
        which = (objects.c.key == tables.key_of(item.id)) & (objects.c.stamp == item.stamp)
        with self.transaction() as connection:
            row = connection.execute(sa.select(objects).where(which)).first()
            if row is None:
                raise StorageError(f"The store holds no object with id {item.id!r}, or the object has changed.")
            if row.blob is None:
                value: memoryview | None = memoryview(bytearray(row.value or b""))
            else:
                value = self._blobs.read(connection, row.blob, item.size)
            if value is not None and checksum_of(value) == item.checksum:
                return value
            self._set_aside(connection, row, "its value is missing" if value is None else "its checksum is wrong")
        raise StorageError(
            f"The object {item.id!r} is damaged in the store of this node. It was quarantined and is not served. "
            "Its owner can restore it from a backup."
        )

    def open_value(self, item: Item) -> int | None:
        """Return a file descriptor of the value of an object; its checksum is verified once."""
        objects = tables.objects
        which = (objects.c.key == tables.key_of(item.id)) & (objects.c.stamp == item.stamp)
        with self.transaction() as connection:
            blob = connection.execute(sa.select(objects.c.blob).where(which)).scalar()
        file = None if blob is None else self._blobs.file(blob)
        if file is None:
            return None
        if item.stamp not in self._checked:
            self.read(item)
            self._checked.add(item.stamp)
        return os.open(file, os.O_RDONLY | os.O_CLOEXEC)

    def remove(self, obj_id: ObjectId, stamp: str | None = None) -> bool:
        """Remove an object, if a stamp is given only that version."""
        objects = tables.objects
        which = objects.c.key == tables.key_of(obj_id)
        if stamp is not None:
            which &= objects.c.stamp == stamp
        with self.transaction() as connection:
            found = connection.execute(sa.select(objects.c.key).where(which)).first() is not None
            files = self._drop_row(connection, which) if found else []
        for blob in files:
            self._drop_file(blob)
        return found

    def items(self) -> list[Item]:
        """Return all stored objects without their values."""
        with self.transaction() as connection:
            rows = connection.execute(sa.select(*tables.DESCRIPTION)).mappings().all()
        return sorted(map(tables.item_of, rows), key=lambda item: item.created)

    def damaged(self) -> list[Damaged]:
        """Return the quarantined objects."""
        with self.transaction() as connection:
            rows = connection.execute(sa.select(tables.damaged.c.id, tables.damaged.c.reason, tables.damaged.c.stamp))
            return [Damaged(_id_in(row.id), row.reason, row.stamp) for row in rows]

    def close(self) -> None:
        """Close the connection to the database."""
        with self._exclusive:
            if not self._closed:
                self._closed = True
                self._engine.dispose()


def _id_in(text: str) -> ObjectId | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, int | str) else None
