"""The audit log: user, action and decision of each request. It is append-only and contains no data values.

Each row contains the hash of itself and of its predecessor, so a changed, removed or added row is detected. An
attacker with write access to the store or file can replace the whole chain; to detect that, keep the last hash
elsewhere.
"""

from __future__ import annotations

import abc
import hashlib
import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
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


def check_chain(rows: Iterable[Row]) -> tuple[int, str]:
    """Verify all rows of a log; returns the number and hash of the last."""
    number, previous = 0, FIRST
    for row in rows:
        if row.get("number") != number + 1 or row.get("previous") != previous or row.get("hash") != digest(row):
            raise AuditError(f"Row {number + 1} of the audit log was changed or is missing.")
        number, previous = number + 1, row["hash"]
    return number, previous


class _AuditChain(abc.ABC):
    """Adds rows that are chained by their hashes."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._number, self._last = 0, FIRST

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

    @abc.abstractmethod
    def _store(self, row: Row) -> None:
        """Write a row to disk."""


class AuditLog(_AuditChain):
    """The audit log of a node; a row is on disk before its action takes effect."""

    def __init__(self, records: RecordStore, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self._records = records
        number, _ = records.head(AREA)
        for row in self.rows(after=number - 1) if number else ():
            self._number, self._last = row["number"], row["hash"]

    def _store(self, row: Row) -> None:
        self._records.append(AREA, row)

    def rows(self, after: int = 0, limit: int | None = None) -> list[Row]:
        """Return the rows after a number, at most `limit` of them."""
        return [dict(entry.value) for entry in self._records.entries(AREA, after=after, limit=limit)]

    def verify(self) -> int:
        """Verify all rows, and return their number."""
        self._records.verify(AREA)
        return check_chain(self.rows())[0]


class AuditFile(_AuditChain):
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
        try:
            os.fchmod(self._file, 0o600)
            self._drop_torn_line()
            self._number, self._last = check_chain(self._read())
        except Exception:
            self.close()
            raise

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
                    row = None
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
        return list(itertools.islice((row for row in self._read() if row["number"] > after), limit))

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
