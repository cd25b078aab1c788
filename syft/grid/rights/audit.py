"""The audit log: user, action and decision of each request. It is append-only and contains no data values.

Each row contains the hash of itself and of its predecessor, so a changed, removed or added row is detected. An
attacker with write access to the file can replace the whole chain; to detect that, keep the last hash elsewhere.
"""

from __future__ import annotations

import collections
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from syft.exceptions import SyftError
from syft.grid.rights.sanitize import bounded

if TYPE_CHECKING:
    from syft.grid.storage.records import RecordStore

Row = dict[str, Any]
FIRST = "0" * 64
# Maximum number of rows of a log in memory.
MAX_ROWS = 100_000


class AuditError(SyftError):
    """The audit log was tampered with or is damaged."""


class Audit(Protocol):
    """An audit log."""

    def write(
        self, user: object, action: str, obj_id: object = None, how: str = "", allowed: bool | None = None,
        reason: str = "", request_id: str = "",
    ) -> Row:  # fmt: skip
        """Add a row."""
        ...

    def rows(self, after: int = 0, limit: int | None = None) -> list[Row]:
        """Return rows by number."""
        ...

    def verify(self) -> int:
        """Verify all rows, and return their number."""
        ...


def digest(row: Row) -> str:
    """Return the hash of a row, which covers the hash of the row before it."""
    content = {key: value for key, value in row.items() if key != "hash"}
    written = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(written.encode()).hexdigest()


def check_chain(rows: Iterator[Row], number: int = 0, previous: str = FIRST) -> tuple[int, str]:
    """Verify rows that follow a verified one; returns the number and hash of the last."""
    for row in rows:
        if row.get("number") != number + 1 or row.get("previous") != previous or row.get("hash") != digest(row):
            raise AuditError(f"Row {number + 1} of the audit log was changed or is missing.")
        number, previous = number + 1, row["hash"]
    return number, previous


class AuditLog:
    """An audit log in memory; beyond `MAX_ROWS` rows the oldest are dropped, and the chain continues.

    Args:
        clock: returns seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._number, self._last = 0, FIRST
        self._rows: collections.deque[Row] = collections.deque(maxlen=MAX_ROWS)
        self._lock = threading.Lock()

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
            self._store(row)
            self._number, self._last = row["number"], row["hash"]
        return row

    def _store(self, row: Row) -> None:
        self._rows.append(row)

    def rows(self, after: int = 0, limit: int | None = None) -> list[Row]:
        """Return the rows after a number, at most `limit` of them."""
        with self._lock:
            found = [dict(row) for row in self._rows if row["number"] > after]
        return found[:limit]

    def verify(self) -> int:
        """Verify all rows in memory, and return the number of the last."""
        rows = self.rows()
        if not rows:
            return 0
        number, last = check_chain(iter(rows), rows[0]["number"] - 1, rows[0]["previous"])
        if (number, last) != (self._number, self._last):
            raise AuditError(f"The audit log ends with row {number}, but {self._number} rows were written.")
        return number


class AuditFile(AuditLog):
    """An audit log in a JSON Lines file; a row is on disk before its action takes effect.

    Args:
        path: the file; it is created with mode 0600 if it does not exist.
        clock: returns seconds since 1970.
    """

    def __init__(self, path: str | os.PathLike[str], clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self.path = Path(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        self._file = os.open(self.path, flags, 0o600)
        os.fchmod(self._file, 0o600)
        self._drop_torn_line()
        self._number, self._last = check_chain(self._read())

    def _drop_torn_line(self) -> None:
        """Truncate an incomplete last row; its action never took effect."""
        end = os.fstat(self._file).st_size
        while end > 0 and os.pread(self._file, 1, end - 1) != b"\n":
            end -= 1
        os.ftruncate(self._file, end)

    def _read(self) -> Iterator[Row]:
        with self.path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    row = json.loads(line)
                except ValueError:
                    raise AuditError(f"Line {number} of the audit log {self.path.name!r} is damaged.") from None
                if not isinstance(row, dict):
                    raise AuditError(f"Line {number} of the audit log {self.path.name!r} is damaged.")
                yield row

    def _store(self, row: Row) -> None:
        written = json.dumps(row, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        before = os.fstat(self._file).st_size
        try:
            if os.write(self._file, written) != len(written):
                raise OSError("the disk is full")
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, before)  # an incomplete row would corrupt the next one
            raise

    def rows(self, after: int = 0, limit: int | None = None) -> list[Row]:
        """Return the rows after a number, at most `limit` of them."""
        found: list[Row] = []
        for row in self._read():
            if row["number"] > after and (limit is None or len(found) < limit):
                found.append(row)
        return found

    def verify(self) -> int:
        """Verify all rows of the file, and return their number."""
        with self._lock:
            number, last = check_chain(self._read())
            if (number, last) != (self._number, self._last):
                raise AuditError(f"The audit log ends with row {number}, but {self._number} rows were written.")
        return number

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class StoredAudit(AuditLog):
    """An audit log in the store of a node (`storage.records`).

    Args:
        records: the records of the store, which chain their entries themselves.
        area: the name of the log in the store.
        clock: returns seconds since 1970.
    """

    def __init__(self, records: RecordStore, area: str = "audit", clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self._records = records
        self._area = area
        number, _ = records.head(area)
        for row in self.rows(after=number - 1) if number else ():
            self._number, self._last = row["number"], row["hash"]

    def _store(self, row: Row) -> None:
        self._records.append(self._area, row)

    def rows(self, after: int = 0, limit: int | None = None) -> list[Row]:
        """Return the rows after a number, at most `limit` of them."""
        return [dict(entry.value) for entry in self._records.entries(self._area, after=after, limit=limit)]

    def verify(self) -> int:
        """Verify all rows, and return their number."""
        self._records.verify(self._area)
        return check_chain(iter(self.rows()))[0]
