"""Durable records of a node by area and key, and append-only logs.

Each log entry contains a hash of itself and of its predecessor, so a changed, missing or added entry is detected.
An attacker with write access to the database can replace the whole chain; to detect that, keep `head` elsewhere.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import sqlalchemy as sa

from syft.exceptions import StorageError
from syft.grid.storage import tables

_FIRST = "0" * 64


@dataclasses.dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of a log.

    Attributes:
        number: its number, starting at 1.
        at: the time it was written, in seconds since 1970.
        value: its content.
        hash: the hash of all entries up to this one, in hex.
    """

    number: int
    at: float
    value: Any
    hash: str


class RecordTransaction:
    """Reads and writes of one transaction (see `RecordStore.together`)."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def get(self, area: str, key: str) -> Any:
        """Return the value of a key; None if there is none."""
        rows = tables.records
        query = sa.select(rows.c.value).where(rows.c.digest == tables.digest(area, key))
        text = self._connection.execute(query).scalar()
        return None if text is None else json.loads(text)

    def list(self, area: str) -> dict[str, Any]:
        """Return all values of an area by key."""
        rows = tables.records
        found = self._connection.execute(sa.select(rows.c.key, rows.c.value).where(rows.c.area == area)).all()
        return {json.loads(row.key): json.loads(row.value) for row in found}

    def put(self, area: str, key: str, value: object) -> None:
        """Set the value of a key; None deletes it."""
        rows = tables.records
        name = tables.digest(area, key)
        self._connection.execute(rows.delete().where(rows.c.digest == name))
        if value is not None:
            row = {"digest": name, "area": area, "key": json.dumps(key), "value": json.dumps(value)}
            self._connection.execute(rows.insert(), row)

    def append(self, area: str, value: object) -> int:
        """Add an entry to a log; returns its number."""
        text, at = json.dumps(value), repr(time.time())
        number, before = self.head(area)
        number += 1
        entry = {"area": area, "number": number, "at": at, "value": text}
        entry["hash"] = _hash(before, area, number, at, text)
        self._connection.execute(tables.log.insert(), entry)
        heads = tables.heads
        self._connection.execute(heads.delete().where(heads.c.area == area))
        self._connection.execute(heads.insert(), {"area": area, "number": number, "hash": entry["hash"]})
        return number

    def head(self, area: str) -> tuple[int, str]:
        """Return the number and the hash of the last entry of a log."""
        heads = tables.heads
        row = self._connection.execute(sa.select(heads).where(heads.c.area == area)).first()
        return (0, _FIRST) if row is None else (row.number, row.hash)

    def entries(self, area: str, after: int = 0, limit: int | None = None) -> tuple[LogEntry, ...]:
        """Return the entries of a log after a number, in order, at most `limit` of them."""
        rows = tables.log
        query = sa.select(rows).where(rows.c.area == area, rows.c.number > after).order_by(rows.c.number)
        found = self._connection.execute(query if limit is None else query.limit(limit)).all()
        return tuple(LogEntry(row.number, float(row.at), json.loads(row.value), row.hash) for row in found)

    def verify(self, area: str) -> int:
        """Verify the hash chain of a log; returns the number of its entries."""
        rows = tables.log
        expected, before = 0, _FIRST
        for row in self._connection.execute(sa.select(rows).where(rows.c.area == area).order_by(rows.c.number)):
            expected += 1
            if row.number != expected or row.hash != _hash(before, area, row.number, row.at, row.value):
                raise StorageError(f"The log {area!r} was tampered with at entry {expected}.")
            before = row.hash
        if self.head(area) != (expected, before):
            raise StorageError(f"The log {area!r} was tampered with: its end, after entry {expected}, is missing.")
        return expected


class RecordStore:
    """JSON values by area and key, and logs by area. Every method is one durable transaction."""

    def __init__(self, transaction: Callable[[], AbstractContextManager[sa.Connection]]) -> None:
        self._transaction = transaction

    @contextlib.contextmanager
    def together(self) -> Iterator[RecordTransaction]:
        """Read and write several values in one exclusive, durable transaction."""
        with self._transaction() as connection:
            yield RecordTransaction(connection)

    def get(self, area: str, key: str) -> Any:
        """Return the value of a key; None if there is none."""
        with self.together() as transaction:
            return transaction.get(area, key)

    def list(self, area: str) -> dict[str, Any]:
        """Return all values of an area by key."""
        with self.together() as transaction:
            return transaction.list(area)

    def put(self, area: str, key: str, value: object) -> None:
        """Set the value of a key; None deletes it."""
        with self.together() as transaction:
            transaction.put(area, key, value)

    def update(self, area: str, key: str, change: Callable[[Any], Any]) -> Any:
        """Replace a value by `change(value)`, exclusively, and return it; None stands for no value.

        If `change` raises, nothing changes.
        """
        with self.together() as transaction:
            value = change(transaction.get(area, key))
            transaction.put(area, key, value)
            return value

    def append(self, area: str, value: object) -> int:
        """Add an entry to a log; returns its number."""
        with self.together() as transaction:
            return transaction.append(area, value)

    def head(self, area: str) -> tuple[int, str]:
        """Return the number and the hash of the last entry. A copy kept elsewhere authenticates all entries so far."""
        with self.together() as transaction:
            return transaction.head(area)

    def entries(self, area: str, after: int = 0, limit: int | None = None) -> tuple[LogEntry, ...]:
        """Return the entries of a log after a number, in order, at most `limit` of them."""
        with self.together() as transaction:
            return transaction.entries(area, after, limit)

    def verify(self, area: str) -> int:
        """Verify the hash chain of a log; returns the number of its entries.

        Raises:
            StorageError: an entry was changed, removed or added; the message names it.
        """
        with self.together() as transaction:
            return transaction.verify(area)


def _hash(before: str, area: str, number: int, at: str, text: str) -> str:
    return tables.digest(before, area, str(number), at, text)
