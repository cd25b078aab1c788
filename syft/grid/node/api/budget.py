"""HTTP routes of privacy budgets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, HTTPException, Query

from syft.core.id_provider import MAX_ID_CHARS, ObjectId
from syft.grid.identity.roles import Capability, may
from syft.grid.node.api.access import caller, make_router, needs, refusals
from syft.grid.node.api.models import BudgetRow, ChargeRow, NewLimit
from syft.grid.node.api.objects import find_id
from syft.grid.rights.budget import user_key
from syft.grid.server.auth import Principal

if TYPE_CHECKING:
    from syft.grid.node.node import Node


def make_budget(node: Node) -> APIRouter:
    """Return the routes of privacy budgets."""
    router = make_router("budget")
    _add_limits(router, node)
    _add_reading(router, node)
    return router


def _add_limits(router: APIRouter, node: Node) -> None:
    owner = needs(node, Capability.DECIDE)

    @router.put("/budget", responses=refusals(404, 409))
    def set_limit(given: NewLimit, principal: Principal = owner) -> list[BudgetRow]:
        """Set a limit. Only data with a limit can be queried with differential privacy."""
        data = _data(node, given.data)
        rows = node.policy.budget.set(node.worker, data, given.epsilon, given.delta, given.user, by=principal.user)
        return [budget_row(row) for row in rows]

    @router.delete("/budget", status_code=204, responses=refusals(404, 409))
    def remove_limit(
        data: str | None = Query(default=None, min_length=1, max_length=MAX_ID_CHARS),
        user: str | None = Query(default=None, min_length=1, max_length=256),
        principal: Principal = owner,
    ) -> None:
        """Remove a limit. Data without a limit can't be queried; the spent budget stays spent."""
        if not node.policy.budget.remove(node.worker, _data(node, data), user, by=principal.user):
            raise HTTPException(404, "There is no such limit. List them: python -m syft node budget show")


def _add_reading(router: APIRouter, node: Node) -> None:
    anybody = caller(node)

    @router.get("/budget", responses=refusals())
    def list_budget(
        user: str | None = Query(default=None, min_length=1, max_length=256, description="only limits of this user"),
        principal: Principal = anybody,
    ) -> list[BudgetRow]:
        """List limits with the spent and remaining budget: owners see all, users those that apply to them."""
        return [budget_row(row) for row in node.policy.budget.rows(_whose(principal, user))]

    @router.get("/budget/entries", responses=refusals())
    def list_entries(
        user: str | None = Query(default=None, min_length=1, max_length=256, description="only charges of this user"),
        after: int = Query(default=0, ge=0, le=2**62, description="skip the entries up to this number"),
        limit: int = Query(default=100, ge=1, le=1000),
        principal: Principal = anybody,
    ) -> list[ChargeRow]:
        """List charges, the oldest first: owners see all, users their own."""
        return [ChargeRow(**row) for row in node.policy.budget.entries(_whose(principal, user), after, limit)]


def _whose(principal: Principal, user: str | None) -> str | None:
    """Return the user whose rows are listed: owners choose, users get their own."""
    if may(principal.role, Capability.DECIDE):
        return user
    own = user_key(principal.user)
    if user is not None and user_key(user) != own:
        raise HTTPException(403, "Only owners see the charges of other users. Leave out user to list your own.")
    return own


def _data(node: Node, text: str | None) -> ObjectId | None:
    """Return the id of a text; an unknown text may be a data set, or a deleted object."""
    try:
        return None if text is None else find_id(node.worker.object_store.objects, text)
    except HTTPException as error:
        if error.status_code != 404:
            raise
        return text


def budget_row(row: dict[str, Any]) -> BudgetRow:
    """Return a limit in the API's format; JSON has no infinity."""
    return BudgetRow(**{**row, "spent": row["spent"] if math.isfinite(row["spent"]) else None})
