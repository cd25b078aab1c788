"""`node requests`, `node grants` and `node audit`: releases of results, pending and past."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from syft.cli.api_client import Columns, Target, quoted, request, show_rows
from syft.cli.options import NO_TARGET, After, Json, Limit, Newest, NodeCommands, RowId, duration
from syft.cli.output import give, moment, say, shape_of
from syft.grid.owner.requests import ReleaseRequest

requests = NodeCommands("Requests of users to release a result.")
grants = NodeCommands("Approved requests.")
audit = NodeCommands("The audit log: requests, decisions and releases.")


@requests.add("list")
def list_requests(
    status: Annotated[str | None, typer.Option(help="Only pending, approved, denied, expired or revoked ones.")] = None,
    limit: Newest = 100,
    target: Target = NO_TARGET,
    as_json: Json = False,
) -> None:
    """List requests with their users, objects and reasons."""
    columns: Columns = {
        "id": "id",
        "status": "status",
        "user": "user",
        "wants": lambda row: f"{row['kind']} {shape_of(row['shape'])}",
        "asked": lambda row: moment(row["asked_at"]),
        "reason": "reason",
    }
    show_rows(target, as_json, "requests", columns, "There are no requests.", status=status, limit=limit)


@requests.add("show")
def show_request(
    request_id: RowId,
    verify: Annotated[bool, typer.Option("--verify", help="Run the code again, and compare the result.")] = False,
    target: Target = NO_TARGET,
    as_json: Json = False,
) -> None:
    """Show a request. Prints its user, its reason, the code that leads to the result, and what it reveals."""
    path = f"requests/{quoted(request_id)}"
    row = request(target, "POST", f"{path}/verify", {}) if verify else request(target, "GET", path)
    if row["review"] is None and row["size"] is not None and row["status"] in ("pending", "approved"):
        row = request(target, "POST", f"{path}/review", {})
    if as_json:
        give(row)
        return
    asked = ReleaseRequest.of(row)
    for line in asked.lines():
        say(line)
    if not asked.verdict:
        say("Not verified yet: requests show ID --verify runs this code again and compares.")


@requests.add("approve")
def approve(
    request_id: RowId,
    expires: Annotated[str | None, typer.Option(help="How long it is valid: 7d ...; otherwise until revoked.")] = None,
    answer: Annotated[str, typer.Option(help="A text for the user.")] = "",
    target: Target = NO_TARGET,
) -> None:
    """Approve a request. The user may fetch the copy that was sealed with it."""
    body: dict[str, Any] = {"answer": answer}
    if expires is not None:
        body["seconds"] = duration(expires)
    row = request(target, "POST", f"requests/{quoted(request_id)}/approve", body)
    for warned in (row["review"] or {"warnings": []})["warnings"]:
        say(f"WARNING: {warned['text']}")
    until = "until it is revoked" if row["expires"] is None else f"until {moment(row['expires'])}"
    say(f"Approved: {row['user']} may fetch the {row['kind']} ({shape_of(row['shape'])}), {until}.")


@requests.add("deny")
def deny(
    request_id: RowId,
    reason: Annotated[str, typer.Option(help="Why; the user reads it.")] = "",
    target: Target = NO_TARGET,
) -> None:
    """Deny a request."""
    row = request(target, "POST", f"requests/{quoted(request_id)}/deny", {"reason": reason})
    say(f"Denied: {row['user']} can read the reason.")


@grants.add("list")
def list_grants(limit: Newest = 100, target: Target = NO_TARGET, as_json: Json = False) -> None:
    """List grants and when they end."""
    columns: Columns = {
        "id": "id",
        "user": "user",
        "scope": "scope",
        "object": "object",
        "expires": lambda row: moment(row["expires"]),
        "revoked": lambda row: moment(row["revoked_at"]),
        "request": "request",
    }
    show_rows(target, as_json, "grants", columns, "Nothing was granted.", limit=limit)


@grants.add("revoke")
def revoke_grant(grant_id: RowId, target: Target = NO_TARGET) -> None:
    """Revoke a grant; released results can't be revoked."""
    request(target, "DELETE", f"grants/{quoted(grant_id)}")
    say("Revoked: the user can't fetch it any more.")


@audit.add("show")
def show_audit(after: After = 0, limit: Limit = 100, target: Target = NO_TARGET, as_json: Json = False) -> None:
    """Show the log, the oldest row first."""
    columns: Columns = {
        "row": "number",
        "time": lambda row: moment(row["time"]),
        "user": "user",
        "action": "action",
        "how": "how",
        "allowed": "allowed",
        "request": "request",
        "object": "object",
        "reason": "reason",
    }
    show_rows(target, as_json, "audit", columns, "The log is empty.", after=after, limit=limit)


@audit.add("verify")
def verify_audit(target: Target = NO_TARGET) -> None:
    """Check that the log is intact. No row was changed, removed or added by somebody else."""
    found = request(target, "GET", "audit/verify")
    say(f"The log is intact: {found['rows']} rows.")
