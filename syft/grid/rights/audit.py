"""The audit log: user, action and decision of each request. It is append-only and contains no data values.

Each row contains the hash of itself and of its predecessor, so a changed, removed or added row is detected. An
attacker with write access to the store can replace the whole chain; to detect that, keep the last hash elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from syft.exceptions import SyftError
from syft.grid.rights.sanitize import bounded

if TYPE_CHECKING:
    from syft.grid.storage.records import RecordStore

Row = dict[str, Any]
FIRST = "0" * 64
AREA = "audit"


class AuditError(SyftError):
    """The audit log was tampered with or is damaged."""


def digest(row: Row) -> str:
    """Return the hash of a row, which covers the hash of the row before it."""
    content = {key: value for key, value in row.items() if key != "hash"}
    written = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(written.encode()).hexdigest()


class AuditLog:
    """The audit log of a node; a row is on disk before its action takes effect."""

    def __init__(self, records: RecordStore, clock: Callable[[], float] = time.time) -> None:
        self._records = records
        self._clock = clock
        self._lock = threading.Lock()
        self._number, self._last = 0, FIRST
        number, _ = records.head(AREA)
        for row in self.rows(after=number - 1) if number else ():
            self._number, self._last = row["number"], row["hash"]

    def write(
        self, user: object, action: str, obj_id: object = None, how: str = "", allowed: bool | None = None,
        reason: str = "", request_id: str = "",
    ) -> Row:  # fmt: skip
        """Add a row.

        Args:
            user: the user.
            action: the action: `release`, `request`, `decide`, `revoke`, `login`, ...
            obj_id: the object concerned.
            how: the means, such as the name of a call.
            allowed: whether it was allowed; None if there was no decision.
            reason: the user's reason, or that of the refusal.
            request_id: the request it belongs to.
        """
        row: Row = {
            "time": round(self._clock(), 6), "user": bounded(user, 100), "action": bounded(action, 40),
            "object": None if obj_id is None else bounded(obj_id, 100), "how": bounded(how, 100), "allowed": allowed,
            "reason": bounded(reason), "request": bounded(request_id, 40),
        }  # fmt: skip
        with self._lock:
            row["number"], row["previous"] = self._number + 1, self._last
            row["hash"] = digest(row)
            self._records.append(AREA, row)
            self._number, self._last = row["number"], row["hash"]
        return row

    def rows(self, after: int = 0, limit: int | None = None) -> list[Row]:
        """Return the rows after a number, at most `limit` of them."""
        return [dict(entry.value) for entry in self._records.entries(AREA, after=after, limit=limit)]

    def verify(self) -> int:
        """Verify all rows, and return their number."""
        self._records.verify(AREA)
        number, previous = 0, FIRST
        for row in self.rows():
            if row.get("number") != number + 1 or row.get("previous") != previous or row.get("hash") != digest(row):
                raise AuditError(f"Row {number + 1} of the audit log was changed or is missing.")
            number, previous = number + 1, row["hash"]
        return number
