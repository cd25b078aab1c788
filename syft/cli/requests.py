"""`node requests`, `node grants` and `node audit`: releases of results, pending and past."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from syft.cli.api_client import Target, reach
from syft.cli.options import Json, duration
from syft.cli.output import give, moment, rows, say, shape_of
from syft.cli.target_options import NO_TARGET, with_target
from syft.cli.users import quoted

requests = typer.Typer(help="Requests of users to release a result.", no_args_is_help=True, rich_markup_mode=None)
grants = typer.Typer(help="Approved requests.", no_args_is_help=True, rich_markup_mode=None)
audit = typer.Typer(
    help="The audit log: requests, decisions and releases.", no_args_is_help=True, rich_markup_mode=None
)

# Scope of an approval -> description of the object that the user may fetch.
_RELEASED = "the {kind} ({shape})"


@requests.command("list")
@with_target
def list_requests(
    status: Annotated[str | None, typer.Option(help="Only pending, approved, denied, expired or revoked ones.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The newest ones, at most this many.")] = 100,
    target: Target = NO_TARGET,
    as_json: Json = False,
) -> None:
    """List requests with their users, objects and reasons."""
    with reach(target) as talk:
        found = talk.ask("GET", "requests", status=status, limit=limit)
    if as_json:
        give(found)
        return
    lines = [
        (r["id"], r["status"], r["user"], f"{r['kind']} {shape_of(r['shape'])}", moment(r["asked_at"]), r["reason"])
        for r in found
    ]
    rows(("id", "status", "user", "wants", "asked", "reason"), lines, "There are no requests.")


@requests.command("show")
@with_target
def show_request(
    request_id: Annotated[str, typer.Argument(metavar="ID")],
    verify: Annotated[bool, typer.Option("--verify", help="Run the code again, and compare the result.")] = False,
    target: Target = NO_TARGET,
    as_json: Json = False,
) -> None:
    """Show a request: its user, its reason, and the code that leads to the result."""
    with reach(target) as talk:
        if verify:
            row = talk.ask("POST", f"requests/{quoted(request_id)}/verify", {})
        else:
            row = talk.ask("GET", f"requests/{quoted(request_id)}")
    if as_json:
        give(row)
        return
    say(f"{row['user']} asks for a {row['kind']} {shape_of(row['shape'])}: {row['reason']}")
    say(f"Status: {row['status']}, asked {moment(row['asked_at'])}")
    for used in row["data"]:
        people = "" if used["rows"] is None else f", {used['rows']} rows"
        say(f"Data: {used['name']} ({used['spec']}{people})")
    size = "none" if row["size"] is None else f"{row['size']} bytes: {', '.join(row['specs'])}"
    say(f"Sealed copy: {size}{'; ' + row['failure'] if row['failure'] else ''}")
    say(f"Code: {row['calls']} calls; {row['other_calls']} other calls ran in the same vault")
    for line in row["code"].split("\n"):
        say(f"    {line}")
    say(_verdict(row))


def _verdict(row: dict[str, Any]) -> str:
    if row["verified"] is not None:
        return (
            "Verified: running this code again gives the same value."
            if row["verified"]
            else "NOT verified: running this code again fails, or gives another value."
        )
    if row["problem"]:
        return f"This code can't be verified: {row['problem']}."
    return "Not verified yet: requests show ID --verify runs this code again and compares."


@requests.command("approve")
@with_target
def approve(
    request_id: Annotated[str, typer.Argument(metavar="ID")],
    expires: Annotated[str | None, typer.Option(help="How long it is valid: 7d ...; otherwise until revoked.")] = None,
    answer: Annotated[str, typer.Option(help="A text for the user.")] = "",
    target: Target = NO_TARGET,
) -> None:
    """Approve a request: the user may fetch the copy that was sealed with it."""
    body: dict[str, Any] = {"answer": answer}
    if expires is not None:
        body["seconds"] = duration(expires)
    with reach(target) as talk:
        row = talk.ask("POST", f"requests/{quoted(request_id)}/approve", body)
    until = "until it is revoked" if row["expires"] is None else f"until {moment(row['expires'])}"
    what = _RELEASED.format(kind=row["kind"], shape=shape_of(row["shape"]))
    say(f"Approved: {row['user']} may fetch {what}, {until}.")


@requests.command("deny")
@with_target
def deny(
    request_id: Annotated[str, typer.Argument(metavar="ID")],
    reason: Annotated[str, typer.Option(help="Why; the user reads it.")] = "",
    target: Target = NO_TARGET,
) -> None:
    """Deny a request."""
    with reach(target) as talk:
        row = talk.ask("POST", f"requests/{quoted(request_id)}/deny", {"reason": reason})
    say(f"Denied: {row['user']} can read the reason.")


@grants.command("list")
@with_target
def list_grants(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The newest ones, at most this many.")] = 100,
    target: Target = NO_TARGET,
    as_json: Json = False,
) -> None:
    """List grants and when they end."""
    with reach(target) as talk:
        found = talk.ask("GET", "grants", limit=limit)
    if as_json:
        give(found)
        return
    lines = [
        (g["id"], g["user"], g["scope"], g["object"], moment(g["expires"]), moment(g["revoked_at"]), g["request"])
        for g in found
    ]
    rows(("id", "user", "scope", "object", "expires", "revoked", "request"), lines, "Nothing was granted.")


@grants.command("revoke")
@with_target
def revoke_grant(
    grant_id: Annotated[str, typer.Argument(metavar="ID")],
    target: Target = NO_TARGET,
) -> None:
    """Revoke a grant; released results can't be revoked."""
    with reach(target) as talk:
        talk.ask("DELETE", f"grants/{quoted(grant_id)}")
    say("Revoked: the user can't fetch it any more.")


@audit.command("show")
@with_target
def show_audit(
    after: Annotated[int, typer.Option(min=0, help="Leave out the rows up to this number.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most this many rows.")] = 100,
    target: Target = NO_TARGET,
    as_json: Json = False,
) -> None:
    """Show the log, the oldest row first."""
    with reach(target) as talk:
        found = talk.ask("GET", "audit", after=after, limit=limit)
    if as_json:
        give(found)
        return
    lines = [
        (r["number"], moment(r["time"]), r["user"], r["action"], r["how"], r["allowed"], r["object"], r["reason"])
        for r in found
    ]
    rows(("row", "time", "user", "action", "how", "allowed", "object", "reason"), lines, "The log is empty.")


@audit.command("verify")
@with_target
def verify_audit(
    target: Target = NO_TARGET,
) -> None:
    """Check that no row of the log was changed, removed or added by somebody else."""
    with reach(target) as talk:
        found = talk.ask("GET", "audit/verify")
    say(f"The log is intact: {found['rows']} rows.")
