"""LedgerBackend: the storage of a ledger. In memory here; a node stores it on disk."""

from __future__ import annotations

import contextlib
import copy
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol


class LedgerLine(Protocol):
    """One entry of a log."""

    @property
    def number(self) -> int:
        """Its number, starting at 1."""
        ...

    @property
    def at(self) -> float:
        """Its time, in seconds since 1970."""
        ...

    @property
    def value(self) -> Any:
        """Its value."""
        ...


class LedgerTransaction(Protocol):
    """An atomic transaction: values by area and key, and append-only logs."""

    def get(self, area: str, key: str) -> Any:
        """Return a value; None if there is none."""
        ...

    def list(self, area: str) -> dict[str, Any]:
        """Return all values of an area by key."""
        ...

    def put(self, area: str, key: str, value: object) -> None:
        """Set a value; None deletes it."""
        ...

    def append(self, area: str, value: object) -> int:
        """Add an entry to a log, and return its number."""
        ...

    def entries(self, area: str, after: int = 0, limit: int | None = None) -> Sequence[LedgerLine]:
        """Return at most `limit` entries of a log after a number."""
        ...


class LedgerBackend(Protocol):
    """Stores a ledger."""

    def together(self) -> AbstractContextManager[LedgerTransaction]:
        """Open a transaction, one at a time; it is durable when the block has ended."""
        ...


class Written(NamedTuple):
    """One entry of a log in memory."""

    number: int
    at: float
    value: Any


class MemoryLedgerBackend:
    """A ledger in the memory of the process."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, Any]] = {}
        self._logs: dict[str, list[Written]] = {}
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def together(self) -> Iterator[LedgerTransaction]:
        """Open a transaction, one at a time; it is committed if the block ends without an error."""
        with self._lock:
            page = _MemoryTransaction(self._values, self._logs)
            yield page
            page.turn()


class _MemoryTransaction:
    """Reads committed values, and buffers writes until the commit."""

    def __init__(self, values: dict[str, dict[str, Any]], logs: dict[str, list[Written]]) -> None:
        self._values = values
        self._logs = logs
        self._put: dict[tuple[str, str], Any] = {}
        self._added: dict[str, list[Written]] = {}

    def get(self, area: str, key: str) -> Any:
        """Return a value; None if there is none."""
        if (area, key) in self._put:
            return copy.deepcopy(self._put[area, key])
        return copy.deepcopy(self._values.get(area, {}).get(key))

    def list(self, area: str) -> dict[str, Any]:
        """Return all values of an area by key."""
        found = {**self._values.get(area, {}), **{key: value for (a, key), value in self._put.items() if a == area}}
        return {key: copy.deepcopy(value) for key, value in found.items() if value is not None}

    def put(self, area: str, key: str, value: object) -> None:
        """Set a value; None deletes it."""
        self._put[area, key] = copy.deepcopy(value)

    def append(self, area: str, value: object) -> int:
        """Add an entry to a log, and return its number."""
        added = self._added.setdefault(area, [])
        number = len(self._logs.get(area, ())) + len(added) + 1
        added.append(Written(number, time.time(), copy.deepcopy(value)))
        return number

    def entries(self, area: str, after: int = 0, limit: int | None = None) -> Sequence[LedgerLine]:
        """Return at most `limit` entries of a log after a number."""
        found = [*self._logs.get(area, ()), *self._added.get(area, ())][after:]
        return copy.deepcopy(found if limit is None else found[:limit])

    def turn(self) -> None:
        """Commit the writes."""
        for (area, key), value in self._put.items():
            if value is None:
                self._values.setdefault(area, {}).pop(key, None)
            else:
                self._values.setdefault(area, {})[key] = value
        for area, added in self._added.items():
            self._logs.setdefault(area, []).extend(added)
