"""`node requests`, `node grants` and `node audit`: what leaves a node, and what left."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from syft.cli.options import Ca, Home, Json, NodeId, Store, TokenFile, Url, duration
from syft.cli.people import quoted
from syft.cli.reach import Target, reach
from syft.cli.show import give, moment, rows, say, shape_of

requests = typer.Typer(help="Wishes of users that a result be released.", no_args_is_help=True, rich_markup_mode=None)
grants = typer.Typer(help="What was approved.", no_args_is_help=True, rich_markup_mode=None)
audit = typer.Typer(
    help="The log of what was asked for, approved and released.", no_args_is_help=True, rich_markup_mode=None
)

# What a user may fetch from now on, by the scope of what was approved.
_RELEASED = {
    "result": "the {kind} ({shape})",
    "sources": "everything that derives from the data sets of this {kind}, the data sets themselves included",
}
_SCOPES = ("result", "sources")


@requests.command("list")
def list_requests(
    status: Annotated[str | None, typer.Option(help="Only pending, approved, denied, expired or revoked ones.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The newest so many.")] = 100,
    node: NodeId = None,
    store: Store = None,
    home: Home = None,
    url: Url = None,
    token_file: TokenFile = None,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """List requests: who wants what, and why."""
    with reach(Target(store, home, url, token_file, ca, node)) as talk:
        found = talk.ask("GET", "requests", status=status, limit=limit)
    if as_json:
        give(found)
        return
    lines = [
        (r["id"], r["status"], r["user"], f"{r['kind']} {shape_of(r['shape'])}", moment(r["asked_at"]), r["reason"])
        for r in found
    ]
    rows(("id", "status", "user", "wants", "asked", "reason"), lines, "There are no requests.")


@requests.command("approve")
def approve(
    request_id: Annotated[str, typer.Argument(metavar="ID")],
    expires: Annotated[str | None, typer.Option(help="How long it is good: 7d ...; otherwise until revoked.")] = None,
    scope: Annotated[
        str, typer.Option(help="result: only this result; sources: everything derived from the same data.")
    ] = "result",
    answer: Annotated[str, typer.Option(help="A word to the user.")] = "",
    node: NodeId = None,
    store: Store = None,
    home: Home = None,
    url: Url = None,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Approve a request."""
    if scope not in _SCOPES:
        raise typer.BadParameter(f"scope is one of {', '.join(_SCOPES)}")
    body: dict[str, Any] = {"scope": scope, "answer": answer}
    if expires is not None:
        body["seconds"] = duration(expires)
    with reach(Target(store, home, url, token_file, ca, node)) as talk:
        row = talk.ask("POST", f"requests/{quoted(request_id)}/approve", body)
    until = "until it is revoked" if row["expires"] is None else f"until {moment(row['expires'])}"
    what = _RELEASED[scope].format(kind=row["kind"], shape=shape_of(row["shape"]))
    say(f"Approved: {row['user']} may fetch {what}, {until}.")


@requests.command("deny")
def deny(
    request_id: Annotated[str, typer.Argument(metavar="ID")],
    reason: Annotated[str, typer.Option(help="Why; the user reads it.")] = "",
    node: NodeId = None,
    store: Store = None,
    home: Home = None,
    url: Url = None,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Deny a request."""
    with reach(Target(store, home, url, token_file, ca, node)) as talk:
        row = talk.ask("POST", f"requests/{quoted(request_id)}/deny", {"reason": reason})
    say(f"Denied: {row['user']} does not get it, and can read why.")


@grants.command("list")
def list_grants(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The newest so many.")] = 100,
    node: NodeId = None,
    store: Store = None,
    home: Home = None,
    url: Url = None,
    token_file: TokenFile = None,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """List what was granted, and until when."""
    with reach(Target(store, home, url, token_file, ca, node)) as talk:
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
def revoke_grant(
    grant_id: Annotated[str, typer.Argument(metavar="ID")],
    node: NodeId = None,
    store: Store = None,
    home: Home = None,
    url: Url = None,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Revoke a grant; what has left can't be called back."""
    with reach(Target(store, home, url, token_file, ca, node)) as talk:
        talk.ask("DELETE", f"grants/{quoted(grant_id)}")
    say("Revoked: from now on it is not released any more.")


@audit.command("show")
def show_audit(
    after: Annotated[int, typer.Option(min=0, help="Leave out the rows up to this number.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many rows.")] = 100,
    node: NodeId = None,
    store: Store = None,
    home: Home = None,
    url: Url = None,
    token_file: TokenFile = None,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """Show the log, the oldest row first."""
    with reach(Target(store, home, url, token_file, ca, node)) as talk:
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
def verify_audit(
    node: NodeId = None,
    store: Store = None,
    home: Home = None,
    url: Url = None,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Check that no row of the log was changed, removed or added by somebody else."""
    with reach(Target(store, home, url, token_file, ca, node)) as talk:
        found = talk.ask("GET", "audit/verify")
    say(f"The log is whole: {found['rows']} rows.")
