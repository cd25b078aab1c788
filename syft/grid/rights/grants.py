"""Grants: what the owner lets a user have, until it expires or is taken back."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from syft.exceptions import SyftError
from syft.grid.rights.records import Records, Row
from syft.hook.syft_tensor import SyftTensor
from syft.serde import serialize
from syft.workers.provenance import Source

# Inside of a class that has a method `list`, the type has to go by another name.
Rows = list[Row]
RESULT, SOURCES = "result", "sources"
# For how many seconds what was read from the records is believed: another process may have changed them.
_FRESH = 1.0


def fingerprint(worker: Any, obj: Any) -> str:
    """Return what tells an object with these very values, and the gradient that leaves with it, from any other."""
    found = hashlib.sha256()
    if isinstance(obj, torch.Tensor) and not isinstance(obj, SyftTensor):
        _add_tensor(found, obj)
    else:
        found.update(serialize(obj, worker))
    return found.hexdigest()


def _add_tensor(found: Any, tensor: torch.Tensor) -> None:
    plain = tensor.detach().contiguous()
    found.update(f"{plain.dtype} {tuple(plain.shape)} ".encode())
    if plain.numel():
        found.update(plain.reshape(-1).view(torch.uint8).numpy())
    if tensor.is_leaf and tensor.grad is not None:
        _add_tensor(found, tensor.grad)


class Grants:
    """What was granted.

    Args:
        records: where grants are kept.
        clock: gives seconds since 1970.
    """

    def __init__(self, records: Records, clock: Callable[[], float] = time.time) -> None:
        self._records = records
        self._clock = clock
        self._index: dict[tuple[Any, ...], list[Row]] = {}
        self._read_at = -math.inf
        self._lock = threading.Lock()

    def list(self) -> list[Row]:
        """Return all grants, those that are over too."""
        return self._records.list()

    def add_result(self, user: object, obj_id: object, request: Row, expires: float | None) -> Row:
        """Let a user have an object, as it was when it was asked for."""
        more = {name: request[name] for name in ("fingerprint", "mark")}
        return self._add(RESULT, user, obj_id, request, expires, **more)

    def add_source(self, user: object, source: Row, request: Row, expires: float | None) -> Row:
        """Let a user have everything that derives from a data set."""
        return self._add(SOURCES, user, source["id"], request, expires, source=source["key"])

    def _add(self, scope: str, user: object, obj_id: object, request: Row, expires: float | None, **more: Any) -> Row:
        now = self._clock()
        row: Row = {
            "at": now, "scope": scope, "user": user, "object": obj_id, "request": request["id"], "revoked_at": None,
            "expires_at": None if expires is None else now + expires, **more,
        }  # fmt: skip
        row["id"] = self._records.append(row)
        self._forget()
        return row

    def revoke(self, grant_id: str) -> Row:
        """Take a grant back."""
        row = self._records.update(str(grant_id), revoked_at=self._clock())
        self._forget()
        if row is None:
            raise SyftError(f"There is no grant {str(grant_id)[:40]!r}; see which there are with grants.list().")
        return row

    def are_left(self, grant_ids: Sequence[str]) -> bool:
        """Say whether some of these grants are not taken back."""
        return any(row["id"] in grant_ids and row["revoked_at"] is None for row in self._records.list())

    def covers_source(self, user: object, source: Source) -> Row | None:
        """Return the grant by which a user may have what derives from a data set."""
        if source.id is None:
            return None
        return self._running((SOURCES, user, source.id, source.key))

    def covers_result(self, user: object, obj_id: object, mark: str, values: Callable[[], str]) -> Row | None:
        """Return the grant by which a user may have an object; what was written to since then is another one.

        Args:
            user: the user.
            obj_id: the id of the object.
            mark: its mark. It does not depend on values: or who writes something else to it could tell from the answer
                whether it is the same.
            values: returns the fingerprint of its values, which is the same as long as the mark is.
        """
        found = [row for row in self._all_running((RESULT, user, obj_id, None)) if mark and row.get("mark") == mark]
        return found[0] if found and found[0]["fingerprint"] == values() else None

    def is_running(self, row: Row) -> bool:
        """Say whether a grant holds now."""
        expires = row["expires_at"]
        return row["revoked_at"] is None and (expires is None or self._clock() < expires)

    def _running(self, key: tuple[Any, ...]) -> Row | None:
        found = self._all_running(key)
        return found[0] if found else None

    def _all_running(self, key: tuple[Any, ...]) -> Rows:
        if time.monotonic() - self._read_at > _FRESH:
            self._read()
        return [row for row in self._index.get(key, ()) if self.is_running(row)]

    def _read(self) -> None:
        with self._lock:
            index: dict[tuple[Any, ...], list[Row]] = {}
            read_at = time.monotonic()
            for row in self._records.list():
                index.setdefault((row["scope"], row["user"], row["object"], row.get("source")), []).append(row)
            self._index, self._read_at = index, read_at

    def _forget(self) -> None:
        self._read_at = -math.inf
