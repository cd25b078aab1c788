"""Requests: a user requests a result, and the owner decides about the copy sealed with the request."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from syft.exceptions import NotPermittedError, ObjectNotFoundError, SyftError
from syft.grid.rights.row_store import Row, RowStore
from syft.grid.rights.sanitize import bounded

if TYPE_CHECKING:
    from syft.grid.rights.audit import AuditLog

Rows = list[Row]
PENDING, APPROVED, DENIED, EXPIRED, REVOKED = "pending", "approved", "denied", "expired", "revoked"
# The only scope of a decision: the sealed copy. `data share` shares a whole data set.
RESULT = "result"
# The reasons why a requested object is not released, by the status of the request.
_REASONS = {
    PENDING: "Your request for it is pending",
    DENIED: "Your request for it was denied",
    EXPIRED: "The approval has expired. Request it again: ptr.request(reason=...)",
    REVOKED: "The approval was revoked",
}
# Maximum number of open requests of one user.
MAX_PENDING = 32
# The fields of a request that its user sees.
VISIBLE_FIELDS = ("id", "object", "reason", "status", "at", "decided_at", "answer", "scope", "expires_at")
# Requests that no longer need their sealed copy.
_CLOSED = frozenset({DENIED, EXPIRED, REVOKED})


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a request, known without reading values.

    Attributes:
        object: the id of the object, or of the first of several.
        kind: the kind of object: tensor, plan, ...
        shape: its sizes, for a tensor.
        tags: its tags.
        objects: how many objects are released together.
        data: the data sets it was computed from: rows with id, name, spec and number of rows.
        code: the calls that lead to it, as readable code.
        calls: the number of calls in the code.
        other_calls: the number of other calls that the vault ran.
        problem: why the code can't be verified; "" if it can.
        version: changes when the vault runs a call.
        ids: all objects.
        stamps: the versions of the data sets: pairs of an id and a stamp.
    """

    object: Any
    kind: str = "tensor"
    shape: tuple[int, ...] | None = None
    tags: tuple[str, ...] = ()
    objects: int = 1
    data: tuple[Row, ...] = ()
    code: str = ""
    calls: int = 0
    other_calls: int = 0
    problem: str = ""
    version: str = ""
    ids: tuple[Any, ...] = ()
    stamps: tuple[tuple[Any, str], ...] = ()


class Requests:
    """The requests of all users."""

    def __init__(self, records: RowStore, audit: AuditLog, clock: Callable[[], float] = time.time) -> None:
        self._records = records
        self._audit = audit
        self._clock = clock
        self._lock = threading.RLock()
        # Called with the id of a request whose sealed copy is no longer needed.
        self.forget_copy: Callable[[str], None] = lambda request_id: None

    # --- users ------------------------------------------------------------------------------------------------

    def check(self, user: object, reason: object) -> str:
        """Return the sanitized reason; raise if this user can't make a request now."""
        text = bounded(reason)
        if user is None or str(user).startswith("anonymous-"):
            raise NotPermittedError("Anonymous users can't make requests at this node. Log in first.")
        if not text:
            raise SyftError('A request needs a reason for the owner: ptr.request(reason="...").')
        if sum(row["user"] == user and row["status"] == PENDING for row in self._records.list()) >= MAX_PENDING:
            raise NotPermittedError(f"You have {MAX_PENDING} pending requests. Wait until some are decided.")
        return text

    def pending(self, user: object, subject: Subject) -> Row | None:
        """Return the user's open request for the same object, if the vault ran no call since."""
        for row in self._records.list():
            same = row["user"] == user and row.get("ids") == list(subject.ids) and row["status"] == PENDING
            if same and row.get("version") == subject.version:
                return self._visible(row)
        return None

    def add(
        self,
        user: object,
        subject: Subject,
        reason: str,
        sealed: int | None,
        failure: str = "",
        specs: tuple[str, ...] = (),
    ) -> Row:
        """Store a request; the caller stores its sealed copy under the returned id."""
        row = {
            **dataclasses.asdict(subject), "at": self._clock(), "user": user, "reason": reason, "sealed": sealed,
            "tags": sorted(bounded(tag, 60) for tag in subject.tags[:20]), "failure": bounded(failure, 2000),
            "specs": [bounded(one, 200) for one in specs], "verified": None, "review": None,
            "status": PENDING, "decided_at": None, "decided_by": None, "answer": "", "scope": None, "expires_at": None,
        }  # fmt: skip
        row["id"] = self._records.append(row)
        self._audit.write(user, "request", subject.object, "request", None, reason, row["id"])
        return self._visible(row)

    def status(self, user: object, is_owner: bool, request_id: str) -> Row:
        """Return the status of a user's request; owners may read all requests."""
        row = self._find(request_id)
        if row is None or not (is_owner or row["user"] == user):
            raise ObjectNotFoundError(str(request_id)[:40], "this node", "there is no such request of yours.")
        return self._visible(row)

    def released(self, user: object, obj_id: object = None, request_id: str | None = None) -> Row | str:
        """Return the approved request for an object of a user, or the reason why there is none."""
        mine = [row for row in self._records.list() if row["user"] == user is not None]
        about = [r for r in mine if (r["id"] == request_id if request_id is not None else obj_id in r.get("ids", ()))]
        if not about:
            return ""
        for row in reversed(about):
            if self.status_of(row) == APPROVED:
                if row["sealed"] is None:
                    return f"It was approved, but there is no value: {row['failure'] or 'it was lost'}."
                return row
        status, answer = self.status_of(about[-1]), about[-1]["answer"]
        if not answer or status != DENIED:
            return f"{_REASONS[status]}."
        return f"{_REASONS[status]}: {answer}{'' if answer.endswith(('.', '!', '?')) else '.'}"

    def _visible(self, row: Row) -> Row:
        row = {**row, "status": self.status_of(row)}
        return {name: row[name] for name in VISIBLE_FIELDS}

    def status_of(self, row: Row) -> str:
        """Return the current status of a request."""
        if row["status"] == APPROVED and row["expires_at"] is not None and self._clock() >= row["expires_at"]:
            return EXPIRED
        return str(row["status"])

    # --- the owner --------------------------------------------------------------------------------------------

    def list(self, status: str | None = None) -> Rows:
        """Return requests, the oldest first; if a status is given, only those with it."""
        rows = [{**row, "status": self.status_of(row)} for row in self._records.list()]
        return rows if status is None else [row for row in rows if row["status"] == status]

    def find(self, request_id: str) -> Row:
        """Return a request, for the owner."""
        row = self._find(request_id)
        if row is None:
            raise SyftError(f"There is no request {str(request_id)[:40]!r}; list them with requests.list().")
        return {**row, "status": self.status_of(row)}

    def approve(
        self, request_id: str, expires: float | None = None, scope: str = RESULT, by: object = "owner", answer: str = ""
    ) -> Row:
        """Release the sealed copy of a request.

        Args:
            request_id: the request.
            expires: the duration in seconds; None: until it is revoked.
            scope: `result`; nothing else can be approved.
            by: the user who decides.
            answer: a message to the user.
        """
        if scope != RESULT:
            raise SyftError(
                f"A request is approved for its sealed copy only: scope={RESULT!r}. To release all results of "
                "a data set, share it: node data share ID --user NAME."
            )
        if expires is not None and not (math.isfinite(expires) and expires > 0):
            raise SyftError(f"expires must be a positive number of seconds, got {expires!r}.")
        with self._lock:
            row = self._undecided(request_id)
            end = None if expires is None else self._clock() + expires
            return self._decide(row, APPROVED, by, answer, scope=scope, expires_at=end)

    def deny(self, request_id: str, reason: str = "", by: object = "owner") -> Row:
        """Refuse a request; its sealed copy is deleted."""
        with self._lock:
            row = self._decide(self._undecided(request_id), DENIED, by, reason)
        self.forget_copy(row["id"])
        return row

    def revoke(self, request_id: str, by: object = "owner") -> Row:
        """Revoke an approval; its sealed copy is deleted."""
        with self._lock:
            row = self._find(request_id)
            if row is None or row["status"] != APPROVED:
                raise SyftError(f"There is no approval {str(request_id)[:40]!r}; list them with node grants list.")
            self._records.update(row["id"], status=REVOKED, answer="", revoked_at=self._clock())
        self.forget_copy(row["id"])
        self._audit.write(by, "revoke", row["object"], RESULT, None, f"of {row['user']}", row["id"])
        return self.find(request_id)

    def grants(self) -> Rows:
        """Return the approvals as rows."""
        return [
            {
                "id": row["id"], "user": row["user"], "scope": RESULT, "object": row["object"], "request": row["id"],
                "at": row["decided_at"], "expires_at": row["expires_at"], "revoked_at": row.get("revoked_at"),
            }
            for row in self._records.list()
            if row["status"] in (APPROVED, REVOKED)
        ]  # fmt: skip

    def note_verified(self, request_id: str, verified: bool) -> Row:
        """Store whether replaying the code of a request gave the sealed copy."""
        row = self._records.update(request_id, verified=verified)
        return self.find(request_id) if row is None else {**row, "status": self.status_of(row)}

    def note_review(self, request_id: str, review: Row) -> Row:
        """Store the outcome of a review, for the owner: warnings, notes and a preview of the sealed copy."""
        verified = {} if review["verified"] is None else {"verified": review["verified"]}
        row = self._records.update(request_id, review={**review, "at": self._clock()}, **verified)
        return self.find(request_id) if row is None else {**row, "status": self.status_of(row)}

    def expire(self) -> None:
        """Delete the sealed copies of closed requests."""
        for row in self._records.list():
            if row["sealed"] is not None and self.status_of(row) in _CLOSED:
                self._records.update(row["id"], sealed=None)
                self.forget_copy(row["id"])

    def _find(self, request_id: str) -> Row | None:
        return self._records.get(str(request_id))

    def _undecided(self, request_id: str) -> Row:
        row = self.find(request_id)
        if row["status"] != PENDING:
            raise SyftError(f"Request {row['id']!r} is already decided: {row['status']}.")
        return row

    def _decide(
        self, row: Row, status: str, by: object, answer: str, scope: str | None = None, **fields: object
    ) -> Row:
        text = bounded(answer)
        decided = self._records.update(
            row["id"],
            status=status,
            decided_at=self._clock(),
            decided_by=bounded(by, 100),
            answer=text,
            scope=scope,
            **fields,
        )
        self._audit.write(by, "decide", row["object"], scope or "", status == APPROVED, text, row["id"])
        return decided if decided is not None else row
