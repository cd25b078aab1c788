"""RowStore: the store of requests and grants, in memory or in the store of a node."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from syft.grid.storage.records import RecordStore

Row = dict[str, Any]


class RowStore(Protocol):
    """Rows of one kind: JSON objects, each with an `id`."""

    def append(self, row: Row) -> str:
        """Store a row, and return its new id."""
        ...

    def list(self) -> list[Row]:
        """Return all rows, the oldest first."""
        ...

    def update(self, row_id: str, **fields: object) -> Row | None:
        """Change fields of a row, and return it; None if there is no row with this id."""
        ...

    def get(self, row_id: str) -> Row | None:
        """Return a row; None if there is no row with this id."""
        ...

    def change(self, row_id: str, function: Callable[[Row], Row]) -> Row | None:
        """Atomically replace a row by the result of a function; return the new row.

        Args:
            row_id: the id of the row.
            function: called with the row; if it raises, nothing changes.

        Returns:
            None if there is no row with this id.
        """
        ...


class MemoryRowStore:
    """Rows in memory."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._lock = threading.Lock()

    def append(self, row: Row) -> str:
        """Store a row, and return its new id."""
        row_id = secrets.token_hex(8)
        with self._lock:
            self._rows[row_id] = {**row, "id": row_id}
        return row_id

    def list(self) -> list[Row]:
        """Return all rows, the oldest first."""
        with self._lock:
            return [dict(row) for row in self._rows.values()]

    def update(self, row_id: str, **fields: object) -> Row | None:
        """Change fields of a row, and return it; None if there is no row with this id."""
        with self._lock:
            row = self._rows.get(row_id)
            if row is not None:
                row.update(fields)
            return None if row is None else dict(row)

    def get(self, row_id: str) -> Row | None:
        """Return a row; None if there is no row with this id."""
        with self._lock:
            row = self._rows.get(row_id)
            return None if row is None else dict(row)

    def change(self, row_id: str, function: Callable[[Row], Row]) -> Row | None:
        """Atomically replace a row by the result of a function."""
        with self._lock:
            row = self._rows.get(row_id)
            if row is None:
                return None
            self._rows[row_id] = function(dict(row))
            return dict(self._rows[row_id])


class DurableRowStore:
    """Rows in the store of a node (`storage.records`); each change is on disk when the method returns.

    Args:
        records: the records of the store.
        area: the name of this kind of rows in the store.
    """

    def __init__(self, records: RecordStore, area: str) -> None:
        self._records = records
        self._area = area

    def append(self, row: Row) -> str:
        """Store a row, and return its new id."""
        row_id = secrets.token_hex(8)
        self._records.put(self._area, row_id, {**row, "id": row_id})
        return row_id

    def list(self) -> list[Row]:
        """Return all rows, the oldest first."""
        rows: list[Row] = list(self._records.list(self._area).values())
        return sorted(rows, key=lambda row: row.get("at", 0.0))

    def update(self, row_id: str, **fields: object) -> Row | None:
        """Change fields of a row, and return it; None if there is no row with this id."""
        found: Row | None = self._records.update(
            self._area, row_id, lambda row: None if row is None else {**row, **fields}
        )
        return found

    def get(self, row_id: str) -> Row | None:
        """Return a row; None if there is no row with this id."""
        found: Row | None = self._records.get(self._area, row_id)
        return found

    def change(self, row_id: str, function: Callable[[Row], Row]) -> Row | None:
        """Replace a row by the result of a function, in one transaction."""
        found: Row | None = self._records.update(
            self._area, row_id, lambda row: None if row is None else function(dict(row))
        )
        return found
