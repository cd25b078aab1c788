"""RowStore: requests, grants and programs in the store of a node."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syft.grid.storage.records import RecordStore

Row = dict[str, Any]


class RowStore:
    """Rows of one kind: JSON objects, each with an `id`. Each change is on disk when the method returns."""

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

    def get(self, row_id: str) -> Row | None:
        """Return a row; None if there is no row with this id."""
        found: Row | None = self._records.get(self._area, row_id)
        return found

    def update(self, row_id: str, **fields: object) -> Row | None:
        """Change fields of a row, and return it; None if there is no row with this id."""
        return self.change(row_id, lambda row: {**row, **fields})

    def change(self, row_id: str, function: Callable[[Row], Row]) -> Row | None:
        """Replace a row by the result of a function, in one transaction; None if there is no row with this id."""
        found: Row | None = self._records.update(
            self._area, row_id, lambda row: None if row is None else function(dict(row))
        )
        return found
