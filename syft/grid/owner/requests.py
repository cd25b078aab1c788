"""Requests of users for the release of results, and the owner's decisions."""

from __future__ import annotations

import dataclasses
import html
from typing import Any, Self

from syft.core.labels import one_line, printable
from syft.display import table_html
from syft.exceptions import SyftError
from syft.grid.owner.api import NodeApi, quoted
from syft.grid.owner.review_text import review_lines
from syft.grid.owner.rows import GrantedRequest
from syft.grid.owner.tables import Columns, Listing, RowTable
from syft.grid.owner.texts import moment, seconds_of, shape_of


@dataclasses.dataclass(slots=True)
class ReleaseRequest:
    """A request of a user to release a result, as its owner sees it.

    Attributes:
        id: its id.
        user: the user.
        kind: tensor, or another kind of object.
        shape: the shape of a tensor.
        reason: the purpose, as the user wrote it.
        status: pending, approved, denied, expired or revoked.
        asked_at: the time, in seconds since 1970.
        answer: the owner's text for the user.
        expires: the end of the approval; None: it lasts until it is revoked.
        grants: the ids of its grants.
        data: the data sets that the result was computed from: id, name, spec and rows of each.
        code: the calls that lead to the result.
        calls: the number of these calls.
        other_calls: the number of other calls that the user's vault ran before.
        problem: why the code can't be verified; empty if it can.
        verified: whether running the code again gave the same value; None: not tried.
        size: bytes of the sealed copy; None if there is none.
        failure: why there is no sealed copy.
        review: what the result reveals: `warnings`, `notes`, a `preview`; None: not reviewed.
        specs: kind, dtype and shape of each object in the sealed copy.
    """

    id: str
    user: str
    kind: str
    shape: list[int] | None
    reason: str
    status: str
    asked_at: float
    answer: str | None
    expires: float | None
    grants: list[str]
    data: list[dict[str, Any]]
    code: str
    calls: int
    other_calls: int
    problem: str
    verified: bool | None
    size: int | None
    failure: str
    review: dict[str, Any] | None
    specs: list[str]
    _api: NodeApi | None = dataclasses.field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, row: dict[str, Any], api: NodeApi | None = None) -> Self:
        """Make a request of a row of the API."""
        return cls(**{name: row[name] for name in _FIELDS}, _api=api)

    def approve(self, expires: str | float | None = None, answer: str = "", despite_warnings: bool = False) -> Self:
        """Release the copy that was sealed with the request.

        The node reviews the result first, unless it has done so; a result with warnings is not released.

        Args:
            expires: how long the user may fetch it: "7d", "12h", or seconds; None: until the grant is revoked.
            answer: a text for the user.
            despite_warnings: release it all the same.

        Raises:
            SyftError: the review has warnings.
        """
        if not despite_warnings:
            self._require_no_warnings()
        body: dict[str, Any] = {"answer": answer}
        if expires is not None:
            body["seconds"] = checked_seconds(expires)
        return self._decide("approve", body)

    def _require_no_warnings(self) -> None:
        if self.review is None and self.size is not None and self.status == "pending":
            self.run_review()
        if self.review is not None and self.review["warnings"]:
            texts = " ".join(warned["text"] for warned in self.review["warnings"])
            raise SyftError(
                f"The review of request {self.id} has warnings: {printable(texts)} To release the result all the same, "
                "pass despite_warnings=True."
            )

    def deny(self, reason: str = "") -> Self:
        """Refuse the request.

        Args:
            reason: a text that the user reads.
        """
        return self._decide("deny", {"reason": reason})

    def verify(self) -> Self:
        """Run the code again at the node and compare the result with the sealed copy; `verified` has the outcome."""
        return self._decide("verify", {})

    def run_review(self) -> Self:
        """Look at the node for what the result reveals, such as single rows; `review` has the outcome."""
        return self._decide("review", {})

    def refresh(self) -> Self:
        """Read the request again."""
        return self._set(self._node.ask("GET", f"requests/{quoted(self.id)}"))

    def _decide(self, action: str, body: dict[str, Any]) -> Self:
        return self._set(self._node.ask("POST", f"requests/{quoted(self.id)}/{action}", body))

    @property
    def _node(self) -> NodeApi:
        if self._api is None:
            raise SyftError(f"The request {self.id} was read without a connection to its node.")
        return self._api

    def _set(self, row: dict[str, Any]) -> Self:
        for name in _FIELDS:
            setattr(self, name, row[name])
        return self

    def facts(self) -> list[tuple[str, str]]:
        """Return the name and the text of everything an owner should read before deciding, but for the code."""
        data = [f"{used['name']} ({used['spec']}{_people(used['rows'])})" for used in self.data]
        size = "none" if self.size is None else f"{self.size} bytes: {', '.join(self.specs)}"
        return [
            ("Status", f"{self.status}, asked {moment(self.asked_at)}"),
            *[("Data", text) for text in data],
            ("Sealed copy", f"{size}{'; ' + self.failure if self.failure else ''}"),
            ("Code", f"{self.calls} calls; {self.other_calls} other calls ran in the same vault"),
        ]

    @property
    def wants(self) -> str:
        """The kind and the shape of the result."""
        if self.shape is None:
            return "one object" if len(self.specs) == 1 else f"{len(self.specs)} objects"
        return f"a {self.kind} of {shape_of(self.shape)} numbers" if self.shape else "one number"

    @property
    def question(self) -> str:
        """The user, the kind of result, and the reason, as a sentence."""
        return one_line(f"{self.user} asks for {self.wants}: {self.reason}")

    @property
    def verdict(self) -> str:
        """The outcome of the verification, as a sentence; empty before it."""
        if self.verified is not None:
            return _VERDICTS[self.verified]
        if self.problem:
            return f"This code can't be verified: {self.problem}."
        return ""

    def lines(self) -> list[str]:
        """Return the request as lines of text, with its code."""
        facts = [f"{name}: {one_line(text)}" for name, text in self.facts()]
        code = [f"    {printable(line)}" for line in self.code.split("\n")]
        verdict = [self.verdict] if self.verdict else []
        return [self.question, *facts, *code, *verdict, *map(printable, self._review_lines())]

    def _review_lines(self) -> list[str]:
        if self.review is None and self.size is not None and self._api is not None:
            return ["Not reviewed yet: run_review() looks for what the result reveals."]
        return review_lines(self.review)

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        about = [*self.facts(), *([("Verified", self.verdict)] if self.verdict else [])]
        about += [("Review", line) for line in self._review_lines()]
        return f"{table_html(self.question, about)}<pre>{html.escape(printable(self.code))}</pre>"


_FIELDS = [field.name for field in dataclasses.fields(ReleaseRequest) if not field.name.startswith("_")]
_VERDICTS = {
    True: "Verified: running this code again gives the same value.",
    False: "NOT verified: running this code again fails, or gives another value.",
}


def _people(rows: int | None) -> str:
    return "" if rows is None else f", {rows} rows"


def checked_seconds(expires: str | float) -> float:
    """Return the seconds of a duration.

    Raises:
        SyftError: it is no duration.
    """
    try:
        return seconds_of(expires)
    except ValueError as error:
        raise SyftError(f"expires={expires!r}: {error}.") from None


_REQUESTS: Columns = {
    "id": lambda row: row.id,
    "status": lambda row: row.status,
    "user": lambda row: row.user,
    "wants": lambda row: row.wants,
    "reason": lambda row: row.reason,
}
_GRANTS: Columns = {
    "id": lambda row: row.id,
    "user": lambda row: row.user,
    "request": lambda row: row.request,
    "expires": lambda row: moment(row.expires),
    "revoked": lambda row: moment(row.revoked_at),
}


class RequestList(Listing[ReleaseRequest]):
    """The requests of all users; the newest is the last.

    Example:
        >>> owner.requests[-1].deny("too few patients")  # doctest: +SKIP
    """

    def list(self, status: str | None = None, limit: int = 100) -> RowTable[ReleaseRequest]:
        """Return the newest requests.

        Args:
            status: pending, approved, denied, expired or revoked; None: all.
            limit: the maximum number, up to 1000.
        """
        rows = self._api.ask("GET", "requests", status=status, limit=limit)
        found = [ReleaseRequest.of(row, self._api) for row in rows]
        return RowTable("requests", _REQUESTS, found, "There are no requests.")

    _rows = list

    def show(self, request_id: str, verify: bool = False) -> ReleaseRequest:
        """Return a request by its id, reviewed; with `verify` the node also reports whether its code gives the copy."""
        path = f"requests/{quoted(request_id)}"
        row = self._api.ask("POST", f"{path}/verify", {}) if verify else self._api.ask("GET", path)
        found = ReleaseRequest.of(row, self._api)
        may = found.review is None and found.size is not None and found.status in ("pending", "approved")
        return found.run_review() if may else found

    def approve(
        self, request_id: str, expires: str | float | None = None, answer: str = "", despite_warnings: bool = False
    ) -> ReleaseRequest:
        """Approve a request by its id; see `ReleaseRequest.approve`."""
        return self.show(request_id).approve(expires, answer, despite_warnings)

    def deny(self, request_id: str, reason: str = "") -> ReleaseRequest:
        """Deny a request by its id."""
        return self.show(request_id).deny(reason)


class GrantList(Listing[GrantedRequest]):
    """The approved requests."""

    def list(self, limit: int = 100) -> RowTable[GrantedRequest]:
        """Return the newest grants."""
        rows = [GrantedRequest.of(row) for row in self._api.ask("GET", "grants", limit=limit)]
        return RowTable("grants", _GRANTS, rows, "Nothing was granted.")

    _rows = list

    def revoke(self, grant: str | GrantedRequest) -> None:
        """End an approval. A copy that was fetched can't be recalled."""
        grant_id = grant.id if isinstance(grant, GrantedRequest) else grant
        self._api.ask("DELETE", f"grants/{quoted(grant_id)}")
