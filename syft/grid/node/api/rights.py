"""HTTP routes of requests, grants and the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from fastapi import APIRouter, HTTPException, Query

from syft.dp.budgets.ledger import LOG as BUDGET_LOG
from syft.exceptions import StorageError
from syft.grid.identity.roles import Capability, may
from syft.grid.isolation.supervisor.plan_calls import verify
from syft.grid.isolation.supervisor.release_calls import SEALED
from syft.grid.isolation.supervisor.review_calls import review
from syft.grid.node.api.access import caller, make_router, needs, refusals
from syft.grid.node.api.models import Approval, AuditRow, Denial, GrantRow, RequestRow, RowId, Verified
from syft.grid.rights import AuditError
from syft.grid.server.auth import Principal

if TYPE_CHECKING:
    from syft.grid.node.node import Node


def make_rights(node: Node) -> APIRouter:
    """Return the routes of requests, grants and the audit log."""
    router = make_router("rights")
    _add_requests(router, node)
    _add_decisions(router, node)
    _add_grants(router, node)
    _add_audit(router, node)
    return router


def _add_requests(router: APIRouter, node: Node) -> None:
    anybody = caller(node)

    @router.get("/requests", responses=refusals())
    def list_requests(
        status: Literal["pending", "approved", "denied", "expired", "revoked"] | None = None,
        limit: int = Query(default=100, ge=1, le=1000, description="at most this many, the newest"),
        principal: Principal = anybody,
    ) -> list[RequestRow]:
        """List requests: owners see all, users their own."""
        rows = node.policy.requests.list(status=status)
        if not may(principal.role, Capability.DECIDE):
            rows = [_without_copy(row) for row in rows if row["user"] == principal.user is not None]
        return [request_row(row) for row in rows[-limit:]]


def _without_copy(row: dict[str, Any]) -> dict[str, Any]:
    """Remove fields that depend on the sealed copy, and thus on private values: its size, failure and review."""
    return {**row, "sealed": None, "failure": "", "specs": [], "verified": None, "review": None}


def _add_decisions(router: APIRouter, node: Node) -> None:
    owner = needs(node, Capability.DECIDE)

    @router.post("/requests/{request_id}/approve", responses=refusals(400, 404, 409))
    def approve(given: Approval, request_id: RowId, principal: Principal = owner) -> RequestRow:
        """Approve a request."""
        _check_pending(node, request_id)
        row = node.policy.requests.approve(
            request_id, expires=given.seconds, scope=given.scope, by=principal.user, answer=given.answer
        )
        return request_row(row)

    @router.get("/requests/{request_id}", responses=refusals(404))
    def show_request(request_id: RowId, principal: Principal = owner) -> RequestRow:
        """Return a request with the code that computes its result."""
        return request_row(_find_request(node, request_id))

    @router.post("/requests/{request_id}/verify", responses=refusals(400, 404))
    def verify_request(request_id: RowId, principal: Principal = owner) -> RequestRow:
        """Run the code of a request again, and compare the result with the sealed copy."""
        _find_request(node, request_id)
        return request_row(verify(node.supervisor, request_id, f"{SEALED}{request_id}"))

    @router.post("/requests/{request_id}/review", responses=refusals(400, 404))
    def review_request(request_id: RowId, principal: Principal = owner) -> RequestRow:
        """Look for what a result reveals: few rows, copies of rows, differences to earlier releases."""
        _find_request(node, request_id)
        return request_row(review(node.supervisor, request_id, principal.user))

    @router.post("/requests/{request_id}/deny", responses=refusals(400, 404, 409))
    def deny(given: Denial, request_id: RowId, principal: Principal = owner) -> RequestRow:
        """Deny a request."""
        _check_pending(node, request_id)
        return request_row(node.policy.requests.deny(request_id, reason=given.reason, by=principal.user))


def _find_request(node: Node, request_id: str) -> dict[str, Any]:
    found: dict[str, Any] | None = next((r for r in node.policy.requests.list() if r["id"] == request_id), None)
    if found is None:
        raise HTTPException(404, f"There is no request {request_id!r}. List them: python -m syft node requests list")
    return found


def _check_pending(node: Node, request_id: str) -> None:
    found = _find_request(node, request_id)
    if found["status"] != "pending":
        raise HTTPException(409, f"Request {request_id!r} is already decided: {found['status']}.")


def _add_grants(router: APIRouter, node: Node) -> None:
    owner = needs(node, Capability.DECIDE)

    @router.get("/grants", responses=refusals())
    def list_grants(
        limit: int = Query(default=100, ge=1, le=1000, description="at most this many, the newest"),
        principal: Principal = owner,
    ) -> list[GrantRow]:
        """List grants."""
        return [GrantRow(**row) for row in node.policy.requests.grants()[-limit:]]

    @router.delete("/grants/{grant_id}", status_code=204, responses=refusals(404))
    def revoke_grant(grant_id: RowId, principal: Principal = owner) -> None:
        """Revoke a grant; released values can't be withdrawn."""
        if not any(row["id"] == grant_id for row in node.policy.requests.grants()):
            raise HTTPException(404, f"There is no grant {grant_id!r}. List them: python -m syft node grants list")
        node.policy.requests.revoke(grant_id, by=principal.user)


def _add_audit(router: APIRouter, node: Node) -> None:
    owner = needs(node, Capability.READ_AUDIT)

    @router.get("/audit", responses=refusals())
    def read_audit(
        after: int = Query(default=0, ge=0, le=2**62, description="skip the rows up to this number"),
        limit: int = Query(default=100, ge=1, le=1000),
        principal: Principal = owner,
    ) -> list[AuditRow]:
        """Read the audit log."""
        return [AuditRow(**row) for row in node.audit.rows(after=after, limit=limit)]

    @router.get("/audit/verify", responses=refusals(409))
    def verify_audit(principal: Principal = owner) -> Verified:
        """Verify that no row of the audit log was changed, removed or added."""
        try:
            if node.storage is not None:  # charges are a log of the same kind
                node.storage.records.verify(BUDGET_LOG)
            return Verified(rows=node.audit.verify())
        except (AuditError, StorageError) as error:
            raise HTTPException(409, str(error)) from None


def request_row(row: dict[str, Any]) -> RequestRow:
    """Return a request in the API's format."""
    found = row.get("review")
    shown = None if found is None else {**found, "warnings": [{"kind": k, "text": t} for k, t in found["warnings"]]}
    return RequestRow(
        **{**row, "review": shown}, grants=[row["id"]] if row["status"] in ("approved", "expired") else []
    )
