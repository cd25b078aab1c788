"""Requests: users ask for results, the owner approves or denies."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from syft.core.labels import tags_of
from syft.exceptions import NotPermittedError, ObjectNotFoundError, SyftError
from syft.grid.rights.grants import RESULT, SOURCES, Grants, fingerprint
from syft.grid.rights.records import Records, Row
from syft.grid.rights.texts import bounded
from syft.workers.provenance import mark_of, rights_of, row_of, user_of
from syft.workers.registrar import kind_of

PENDING, APPROVED, DENIED, EXPIRED, REVOKED = "pending", "approved", "denied", "expired", "revoked"
# What a user is told who fetches what is not released, by how the request for it stands.
_EXPLAINED = {
    PENDING: "Your request for it waits for its owner",
    APPROVED: "It has changed since your request was approved: ask again, with ptr.request(reason=...)",
    DENIED: "Your request for it was denied",
    EXPIRED: "What was approved has expired: ask again, with ptr.request(reason=...)",
    REVOKED: "What was approved was revoked",
}
_COPY = (
    "Your request was approved for the very object that you asked for: fetch that one, with ptr.get(). A copy of it, "
    "or what is computed from it, needs a request of its own."
)
# How many requests one user may have open at a time.
MAX_PENDING = 32
# What a user is told of a request.
TOLD = ("id", "object", "reason", "status", "at", "decided_at", "answer", "scope", "expires_at")


class Requests:
    """What users asked for.

    Args:
        records: where requests are kept.
        grants: what was granted.
        audit: where decisions are written down.
        clock: gives seconds since 1970.
    """

    def __init__(self, records: Records, grants: Grants, audit: Any, clock: Callable[[], float] = time.time) -> None:
        self._records = records
        self._grants = grants
        self._audit = audit
        self._clock = clock
        self._lock = threading.RLock()

    # --- users ------------------------------------------------------------------------------------------------

    def ask(self, worker: Any, session: Any, obj_id: Any, obj: Any, reason: str) -> Row:
        """Keep the question of a user; a second one, before anything is written to the object, is the first one.

        Nothing that is told depends on values: else a user who writes private values into an object of its own could
        tell from the answer which they are.

        Args:
            worker: the worker that holds the object.
            session: who asks.
            obj_id: the id of the object.
            obj: the object.
            reason: what it is needed for.
        """
        user, text = session.client_id, bounded(reason)
        if user is None:
            raise NotPermittedError("Nobody knows who you are here, so nothing can be granted to you. Log in first.")
        if not text:
            raise SyftError('A request needs a reason, for its owner to decide by: ptr.request(reason="...").')
        rights = rights_of(worker, obj_id, obj)
        mark, values = mark_of(worker, obj_id, obj), fingerprint(worker, obj)
        with self._lock:
            mine = [row for row in self._records.list() if row["user"] == user and row["status"] == PENDING]
            for row in mine:
                if row["object"] == obj_id and row.get("mark") == mark:
                    return self._told(row)
            if len(mine) >= MAX_PENDING:
                raise NotPermittedError(f"{MAX_PENDING} of your requests wait for an answer; wait for some of them.")
            row = {
                "at": self._clock(), "user": user, "object": obj_id, "kind": kind_of(obj), "reason": text,
                "shape": list(obj.shape) if isinstance(obj, torch.Tensor) else None,
                "tags": sorted(bounded(tag, 60) for tag in list(tags_of(obj))[:20]),
                # That a call failed is nothing to be granted: who may have the rest is told.
                "sources": [
                    source
                    for source in row_of(rights)["sources"]
                    if "failed" not in source and source["owner"] != user_of(session)
                ],
                "fingerprint": values, "mark": mark, "status": PENDING, "decided_at": None, "decided_by": None,
                "answer": "", "scope": None, "expires_at": None, "grants": [],
            }  # fmt: skip
            row["id"] = self._records.append(row)
        self._audit.write(user, "request", obj_id, "request", None, text, row["id"])
        return self._told(row)

    def status(self, session: Any, request_id: str) -> Row:
        """Return how a request of a user stands; an owner may ask about all."""
        row = self._find(request_id)
        if row is None or (session.role != "owner" and row["user"] != session.client_id):
            raise ObjectNotFoundError(str(request_id)[:40], session.worker.id, "there is no such request of yours.")
        return self._told(row)

    def _told(self, row: Row) -> Row:
        row = {**row, "status": self.status_of(row)}
        return {name: row[name] for name in TOLD}

    def status_of(self, row: Row) -> str:
        """Return how a request stands now."""
        if row["status"] == APPROVED and row["expires_at"] is not None and self._clock() >= row["expires_at"]:
            return EXPIRED
        return str(row["status"])

    def explain(self, user: object, obj_id: object) -> str:
        """Say why a user does not get an object, as far as requests for it tell; "" if there is none."""
        mine = [row for row in self._records.list() if row["user"] == user is not None]
        about = [row for row in mine if row["object"] == obj_id is not None]
        if about:
            status, answer = self.status_of(about[-1]), about[-1]["answer"]
            return f"{_EXPLAINED[status]}: {answer}." if answer and status == DENIED else f"{_EXPLAINED[status]}."
        granted = any(self.status_of(row) == APPROVED and row["scope"] == RESULT for row in mine)
        return _COPY if granted else ""

    # --- the owner --------------------------------------------------------------------------------------------

    def list(self, status: str | None = None) -> list[Row]:
        """Return requests, the oldest first; only those that stand so, if that is said."""
        rows = [{**row, "status": self.status_of(row)} for row in self._records.list()]
        return rows if status is None else [row for row in rows if row["status"] == status]

    def approve(
        self, request_id: str, expires: float | None = None, scope: str = RESULT, by: object = "owner", answer: str = ""
    ) -> Row:
        """Grant what was asked for.

        Args:
            request_id: the request.
            expires: for how many seconds; None: until it is revoked.
            scope: `result`, the object with the values it had when it was asked for; or `sources`, everything that
                derives from the same data sets.
            by: who decides.
            answer: a text for whoever asked.
        """
        if scope not in (RESULT, SOURCES):
            raise SyftError(f'The scope is "{RESULT}" (this very result) or "{SOURCES}" (all from the same data).')
        if expires is not None and not (math.isfinite(expires) and expires > 0):
            raise SyftError("A grant expires after a positive number of seconds, or never: expires=None.")
        with self._lock:
            row = self._undecided(request_id)
            if scope == RESULT:
                made = [self._grants.add_result(row["user"], row["object"], row, expires)]
            else:
                if any(source["id"] is None for source in row["sources"]):
                    raise SyftError('It derives from what another user sent, too; grant this result: scope="result".')
                made = [self._grants.add_source(row["user"], source, row, expires) for source in row["sources"]]
            end = None if expires is None else self._clock() + expires
            return self._decide(row, APPROVED, by, answer, scope=scope, expires_at=end, grants=[m["id"] for m in made])

    def deny(self, request_id: str, reason: str = "", by: object = "owner") -> Row:
        """Refuse what was asked for."""
        with self._lock:
            return self._decide(self._undecided(request_id), DENIED, by, reason)

    def revoke(self, grant_id: str, by: object = "owner") -> Row:
        """Take a grant back; the request it came from is revoked when it has no other one left."""
        with self._lock:
            grant = self._grants.revoke(grant_id)
            row = self._find(grant["request"])
            if row is not None and not self._grants.are_left(row["grants"]):
                self._records.update(row["id"], status=REVOKED, answer="")
        self._audit.write(by, "revoke", grant["object"], grant["scope"], None, f"of {grant['user']}", grant["request"])
        return grant

    def _find(self, request_id: str) -> Row | None:
        return next((row for row in self._records.list() if row["id"] == request_id), None)

    def _undecided(self, request_id: str) -> Row:
        row = self._find(request_id)
        if row is None:
            raise SyftError(f"There is no request {str(request_id)[:40]!r}; see which there are with requests.list().")
        if row["status"] != PENDING:
            raise SyftError(f"Request {row['id']!r} was decided already: {self.status_of(row)}.")
        return row

    def _decide(self, row: Row, status: str, by: object, answer: str, **fields: Any) -> Row:
        text = bounded(answer)
        decided = self._records.update(
            row["id"], status=status, decided_at=self._clock(), decided_by=bounded(by, 100), answer=text, **fields
        )
        self._audit.write(by, "decide", row["object"], fields.get("scope") or "", status == APPROVED, text, row["id"])
        return decided if decided is not None else row
