"""`node programs`: plans that users may run on private data, with outputs that leave."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from syft.cli.api_client import ApiClient, Columns, Target, quoted, reach, request, show_rows
from syft.cli.options import NO_TARGET, Json, Newest, NodeCommands, RowId, duration
from syft.cli.output import moment, say
from syft.exceptions import AuthenticationError, SyftError
from syft.grid.owner.programs import published_plan

app = NodeCommands("Plans whose outputs may leave. Users run them on private data.")


@app.add("allow")
def allow(
    plan: Annotated[str, typer.Argument(help="A file that save_plan wrote, or the id or tag of a published plan.")],
    data: Annotated[list[str], typer.Option(help="The id of a data set that it may read; can be repeated.")],
    max_outputs: Annotated[int, typer.Option(min=1, help="How many numbers the outputs of one run may hold.")],
    user: Annotated[list[str] | None, typer.Option(help="A user who may run it; can be repeated.")] = None,
    everybody: Annotated[bool, typer.Option("--everybody", help="Every user may run it.")] = False,
    runs: Annotated[int, typer.Option(min=0, help="How often it may be run, by all users; 0: without a limit.")] = 1,
    expires: Annotated[str | None, typer.Option(help="How long it is allowed: 7d ...; else until revoked.")] = None,
    name: Annotated[str, typer.Option(help="A name to show in lists.")] = "",
    hash: Annotated[
        str | None, typer.Option("--hash", help="The hash that programs show printed; another plan is refused.")
    ] = None,
    target: Target = NO_TARGET,
) -> None:
    """Allow a plan to run on data sets. Read its code first, and pass its hash: programs show."""
    if bool(user) is everybody:
        raise typer.BadParameter("name users with --user, or pass --everybody")
    body: dict[str, Any] = {"data": data, "users": user or [], "everybody": everybody, "max_outputs": max_outputs}
    body.update(runs=runs or None, name=name)
    if expires is not None:
        body["seconds"] = duration(expires)
    if hash is not None:
        body["hash"] = _checked_hash(hash)
    file = Path(plan)
    if file.is_file():
        body["name"] = name or file.stem
    with reach(target) as talk, published_plan(talk, plan) as object_id:
        row = talk.ask("POST", "programs", {**body, "object": object_id})
    who = "everybody" if row["users"] is None else ", ".join(row["users"])
    often = "any number of times" if row["runs"] is None else f"{row['runs']} times"
    until = "until it is revoked" if row["expires"] is None else f"until {moment(row['expires'])}"
    say(f"Allowed: {row['id']}, hash {row['hash']}")
    say(f"{who} may run it {often}, {until}; a run gives at most {row['max_outputs']} numbers.")
    say(f"Its code, from the file {plan}:" if file.is_file() else f"Its code, {_origin(row)}:")
    _say_code(row["code"])


def _checked_hash(text: str) -> str:
    found = text.strip().lower()
    if re.fullmatch("[0-9a-f]{64}", found) is None:
        raise typer.BadParameter(f"a hash has 64 hexadecimal digits, as programs show prints it; got {text[:80]!r}")
    return found


def _origin(row: dict[str, Any]) -> str:
    publisher = row["publisher"] or "the owner of the node"
    return f"from the plan {row['object']} that {publisher} published"


def _say_code(code: str) -> None:
    for line in code.split("\n"):
        say(line)


@app.add("list")
def list_programs(limit: Newest = 100, target: Target = NO_TARGET, as_json: Json = False) -> None:
    """List the programs that are allowed, and those that were."""
    columns: Columns = {
        "id": "id",
        "name": "name",
        "hash": lambda row: row["hash"][:16],
        "data": "data",
        "users": lambda row: "everybody" if row["users"] is None else row["users"],
        "runs": lambda row: f"{row['taken']} of {'any' if row['runs'] is None else row['runs']}",
        "numbers": "max_outputs",
        "expires": lambda row: moment(row["expires"]),
        "revoked": lambda row: moment(row["revoked_at"]),
    }
    show_rows(target, as_json, "programs", columns, "No program is allowed here.", limit=limit)


@app.add("show")
def show(
    program: Annotated[
        str, typer.Argument(help="The id of a program, a file that save_plan wrote, or the id or tag of a plan.")
    ],
    target: Target = NO_TARGET,
) -> None:
    """Show the code and the hash of a program. Takes an allowed one, or a plan before it is allowed."""
    is_file = Path(program).is_file()
    with reach(target) as talk, published_plan(talk, program) as object_id:
        allowed = None if is_file else _find(talk, f"programs/{quoted(program)}/code")
        plan = _find(talk, "programs/code", allowed is None, object=object_id)
    if allowed is not None:
        _say_program(f"Allowed program {program}", allowed)
    if plan is not None:
        _say_program(f"Plan in the file {program}" if is_file else f"Code {_origin(plan)}", plan)


def _find(talk: ApiClient, path: str, is_needed: bool = False, **query: object) -> Any:
    """Return the node's answer; None if it refuses and the answer is optional."""
    try:
        return talk.ask("GET", path, **query)
    except SyftError as error:
        if is_needed or isinstance(error, AuthenticationError):
            raise
        return None


def _say_program(title: str, found: dict[str, Any]) -> None:
    say(f"{title}:")
    _say_code(found["code"])
    say(f"{found['operations']} operations; hash {found['hash']}")


@app.add("revoke")
def revoke(program_id: RowId, target: Target = NO_TARGET) -> None:
    """Revoke a program; released outputs can't be revoked."""
    request(target, "DELETE", f"programs/{quoted(program_id)}")
    say("Revoked: users can't run it any more.")
