"""`node users` and `node tokens`: accounts and their credentials."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Annotated

import typer

from syft.cli.api_client import Columns, Target, quoted, request, show_rows
from syft.cli.options import NO_TARGET, Json, Lifetime, NewFile, NodeCommands, duration
from syft.cli.output import give, moment, note, say
from syft.exceptions import AccountError

users = NodeCommands("Users with a password.")
tokens = NodeCommands("Tokens, which need no password.")

Role = Annotated[str, typer.Option(help="The role: user or owner.")]


def _password(prompt: str) -> str:
    """Return a password: asked for twice at a terminal, else the first line of standard input; never an argument."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    first = getpass.getpass(f"{prompt}: ")
    if getpass.getpass("Again: ") != first:
        raise AccountError("The two are not the same. Nothing was changed.")
    return first


@users.add("add")
def add_user(user: str, role: Role = "user", target: Target = NO_TARGET) -> None:
    """Add a user. The command asks for the password, or reads it from standard input."""
    body = {"user": user, "password": _password(f"Password of {user}"), "role": role}
    row = request(target, "POST", "users", body)
    say(f"{row['user']} was added, with the role {row['role']}.")


@users.add("list")
def list_users(target: Target = NO_TARGET, as_json: Json = False) -> None:
    """List the users that have a password."""
    columns: Columns = {"user": "user", "role": "role", "added": lambda row: moment(row["added"])}
    show_rows(target, as_json, "users", columns, "No user has a password here.")


@users.add("remove")
def remove_user(user: str, target: Target = NO_TARGET) -> None:
    """Remove a user; its tokens end, its objects stay."""
    request(target, "DELETE", f"users/{quoted(user)}")
    say(f"{user} was removed; all of its tokens are revoked.")


@users.add("passwd")
def change_password(user: str, target: Target = NO_TARGET) -> None:
    """Change a password. The command asks for the new one, or reads it from standard input."""
    body = {"password": _password(f"New password of {user}")}
    request(target, "PUT", f"users/{quoted(user)}/password", body)
    say(f"The password of {user} was changed; all of its tokens are revoked.")


@tokens.add("issue")
def issue_token(
    user: Annotated[str, typer.Option(help="The user that it is for.")],
    role: Role = "user",
    expires: Lifetime = "30d",
    output: NewFile = None,
    target: Target = NO_TARGET,
    as_json: Json = False,
) -> None:
    """Make a token, and print it or write it to a file. Give it to its user over a secure channel."""
    from syft.grid.private_files import new_file

    seconds = duration(expires)
    if output is not None and output.exists():
        raise AccountError(f"{output} exists already. Name a new file; no token was made.")
    row = request(target, "POST", "tokens", {"user": user, "role": role, "seconds": seconds})
    if output is not None and not new_file(output, f"{row['token']}\n".encode()):
        raise AccountError(f"{output} exists already. Name a new file, and revoke the token {row['token_id']}.")
    shown = {name: value for name, value in row.items() if output is None or name != "token"}
    if as_json:
        give(shown)
    elif output is None:
        sys.stdout.write(f"{row['token']}\n")
    until = f"It is valid until {moment(row['expires'])}; its id is {row['token_id']}."
    note(f"A token of {row['user']}, role {row['role']}{'' if output is None else f', is in {output}'}. {until}")


@tokens.add("revoke")
def revoke_token(
    token_id: Annotated[str | None, typer.Option("--id", help="The id of the token, as it was shown.")] = None,
    user: Annotated[str | None, typer.Option(help="Revoke all tokens of this user.")] = None,
    file: Annotated[Path | None, typer.Option(help="A file with the token.")] = None,
    target: Target = NO_TARGET,
) -> None:
    """Revoke a token, or all tokens of a user."""
    given = {"token_id": token_id, "user": user, "token": None if file is None else file.read_text().strip()}
    body = {name: value for name, value in given.items() if value is not None}
    if len(body) != 1:
        raise typer.BadParameter("name the tokens to revoke: one of --id, --user and --file")
    request(target, "POST", "tokens/revoke", body)
    say("Revoked: the node refuses it from now on.")
