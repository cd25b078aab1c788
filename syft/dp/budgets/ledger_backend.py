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
    """A ledger in the memory of the process, as its own transaction."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, Any]] = {}
        self._logs: dict[str, list[Written]] = {}
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def together(self) -> Iterator[LedgerTransaction]:
        """Open a transaction, one at a time; an error in the block restores the state before it."""
        with self._lock:
            values = {area: dict(found) for area, found in self._values.items()}
            lengths = {area: len(log) for area, log in self._logs.items()}
            try:
                yield self
            except BaseException:
                self._values = values
                for area, log in self._logs.items():
                    del log[lengths.get(area, 0) :]
                raise

    def get(self, area: str, key: str) -> Any:
        """Return a value; None if there is none."""
        return copy.deepcopy(self._values.get(area, {}).get(key))

    def list(self, area: str) -> dict[str, Any]:
        """Return all values of an area by key."""
        return copy.deepcopy(self._values.get(area, {}))

    def put(self, area: str, key: str, value: object) -> None:
        """Set a value; None deletes it."""
        if value is None:
            self._values.get(area, {}).pop(key, None)
        else:
            self._values.setdefault(area, {})[key] = copy.deepcopy(value)

    def append(self, area: str, value: object) -> int:
        """Add an entry to a log, and return its number."""
        log = self._logs.setdefault(area, [])
        log.append(Written(len(log) + 1, time.time(), copy.deepcopy(value)))
        return len(log)

    def entries(self, area: str, after: int = 0, limit: int | None = None) -> Sequence[LedgerLine]:
        """Return at most `limit` entries of a log after a number."""
        found = self._logs.get(area, [])[after:]
        return copy.deepcopy(found if limit is None else found[:limit])
