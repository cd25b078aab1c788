"""`node programs`: plans that users may run on private data, with outputs that leave."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from syft.cli.options import Json, duration
from syft.cli.people import quoted
from syft.cli.reach import Talk, Target, reach
from syft.cli.show import give, moment, rows, say
from syft.cli.target_options import NO_TARGET, with_target

app = typer.Typer(
    help="Plans that users may run on private data, with outputs that leave.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("allow")
@with_target
def allow(
    plan: Annotated[str, typer.Argument(help="A file that save_plan wrote, or the id or tag of a published plan.")],
    data: Annotated[list[str], typer.Option(help="The id of a data set that it may read; can be repeated.")],
    max_outputs: Annotated[int, typer.Option(min=1, help="How many numbers the outputs of one run may hold.")],
    user: Annotated[list[str] | None, typer.Option(help="A user who may run it; can be repeated.")] = None,
    everybody: Annotated[bool, typer.Option("--everybody", help="Every user may run it.")] = False,
    runs: Annotated[int, typer.Option(min=0, help="How often it may be run, by all users; 0: without a limit.")] = 1,
    expires: Annotated[str | None, typer.Option(help="How long it is allowed: 7d ...; else until revoked.")] = None,
    name: Annotated[str, typer.Option(help="A name for the list.")] = "",
    target: Target = NO_TARGET,
) -> None:
    """Allow a plan to run on data sets. Read its code first: programs show."""
    if bool(user) is everybody:
        raise typer.BadParameter("name users with --user, or pass --everybody")
    body: dict[str, Any] = {"data": data, "users": user or [], "everybody": everybody, "max_outputs": max_outputs}
    body.update(runs=runs or None, name=name)
    if expires is not None:
        body["seconds"] = duration(expires)
    with reach(target) as talk:
        file = Path(plan)
        if file.is_file():
            body["name"] = name or file.stem
            row = _allow_file(talk, file, body)
        else:
            row = talk.ask("POST", "programs", {**body, "object": plan})
    who = "everybody" if row["users"] is None else ", ".join(row["users"])
    often = "any number of times" if row["runs"] is None else f"{row['runs']} times"
    until = "until it is revoked" if row["expires"] is None else f"until {moment(row['expires'])}"
    say(f"Allowed: {row['id']}, hash {row['hash']}")
    say(f"{who} may run it {often}, {until}; a run gives at most {row['max_outputs']} numbers.")


def _allow_file(talk: Talk, file: Path, body: dict[str, Any]) -> Any:
    """Publish the plan of a file for a moment and allow it; the rule keeps a copy."""
    from syft.core.context import local_worker
    from syft.core.id_provider import create_random_id
    from syft.grid.isolation.programs import load_plan

    client = talk.client()
    try:
        pointer = local_worker().send_object(load_plan(file), client, create_random_id(), published=True)
        client.synchronize()
        object_id = str(pointer.id_at_location)
        try:
            return talk.ask("POST", "programs", {**body, "object": object_id})
        finally:
            talk.ask("DELETE", f"objects/{quoted(object_id)}")
    finally:
        client.close()


@app.command("list")
@with_target
def list_programs(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The newest ones, at most this many.")] = 100,
    target: Target = NO_TARGET,
    as_json: Json = False,
) -> None:
    """List the programs that are allowed, and those that were."""
    with reach(target) as talk:
        found = talk.ask("GET", "programs", limit=limit)
    if as_json:
        give(found)
        return
    lines = [
        (
            p["id"], p["name"], p["hash"][:16], p["data"], "everybody" if p["users"] is None else p["users"],
            f"{p['taken']} of {'any' if p['runs'] is None else p['runs']}", p["max_outputs"], moment(p["expires"]),
            moment(p["revoked_at"]),
        )
        for p in found
    ]  # fmt: skip
    columns = ("id", "name", "hash", "data", "users", "runs", "numbers", "expires", "revoked")
    rows(columns, lines, "No program is allowed here.")


@app.command("show")
@with_target
def show(
    program_id: Annotated[str, typer.Argument(metavar="ID")],
    target: Target = NO_TARGET,
) -> None:
    """Show the code of a program."""
    with reach(target) as talk:
        found = talk.ask("GET", f"programs/{quoted(program_id)}/code")
    for line in found["code"].split("\n"):
        say(line)
    say(f"{found['operations']} operations; hash {found['hash']}")


@app.command("revoke")
@with_target
def revoke(
    program_id: Annotated[str, typer.Argument(metavar="ID")],
    target: Target = NO_TARGET,
) -> None:
    """Revoke a program; outputs that have left can't be called back."""
    with reach(target) as talk:
        talk.ask("DELETE", f"programs/{quoted(program_id)}")
    say("Revoked: it is not run any more.")
