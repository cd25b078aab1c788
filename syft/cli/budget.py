"""`node budget`: limits on the privacy loss of data sets, and what was spent."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from syft.cli.api_client import Columns, Target, request, show_rows
from syft.cli.options import NO_TARGET, After, Json, Limit, NodeCommands
from syft.cli.output import moment, say

app = NodeCommands("Privacy budgets of data. They limit what noisy answers may reveal.")

Data = Annotated[
    str | None,
    typer.Option(help="The id of published data (node data list), or dataset:KEY; without it all data together."),
]
User = Annotated[str | None, typer.Option(help="Only for this user; without it for all users together.")]
Each = Annotated[bool, typer.Option("--each-user", help="For each user by itself.")]


@app.add("set")
def set_limit(
    epsilon: Annotated[float, typer.Option(min=0, help="How much may be learnt: 1 is little, 10 is much; 0 stops it.")],
    delta: Annotated[
        float,
        typer.Option(min=0, max=0.5, help="How likely more may be learnt: 1e-6 ...; 0 allows no Gaussian noise."),
    ] = 0.0,
    data: Data = None,
    user: User = None,
    each_user: Each = False,
    target: Target = NO_TARGET,
) -> None:
    """Set a limit. Data that no limit names is closed: nothing leaves it, with noise or without."""
    body = {"data": data, "user": _user(user, each_user), "epsilon": epsilon, "delta": delta}
    for row in request(target, "PUT", "budget", body):
        terms = f"epsilon {epsilon:g} (delta {delta:g}, {row['neighbours']})"
        say(f"Set: {_about(row)} may spend {terms}; {_number(row['spent'])} is spent.")


@app.add("remove")
def remove_limit(data: Data = None, user: User = None, each_user: Each = False, target: Target = NO_TARGET) -> None:
    """Take a limit away. Data that no limit names is closed; what was spent stays spent."""
    request(target, "DELETE", "budget", data=data, user=_user(user, each_user))
    say("Removed. The amounts spent stay spent.")


@app.add("show")
def show(
    user: Annotated[str | None, typer.Option(help="Only what bounds this user.")] = None,
    target: Target = NO_TARGET,
    as_json: Json = False,
) -> None:
    """Show the limits, and what is spent and left of each. With a user's own token: what is left to that user."""
    columns: Columns = {
        "data": lambda row: row["data"] or "all data",
        "user": lambda row: _whose(row["user"]),
        "epsilon": lambda row: f"{row['epsilon']:g}",
        "delta": lambda row: f"{row['delta']:g}",
        "spent": lambda row: _number(row["spent"]),
        "left": lambda row: _number(row["left"]),
        "releases": "releases",
        "neighbours": "neighbours",
    }
    nothing = "There are no limits, so all data is closed: node budget set --data ID --epsilon 1"
    show_rows(target, as_json, "budget", columns, nothing, user=user)


@app.add("entries")
def entries(
    user: Annotated[str | None, typer.Option(help="Only what this user was charged.")] = None,
    after: After = 0,
    limit: Limit = 100,
    target: Target = NO_TARGET,
    as_json: Json = False,
) -> None:
    """Show the charges and their users, the oldest entry first."""
    columns: Columns = {
        "entry": "number",
        "time": lambda row: moment(row["at"]),
        "user": "user",
        "data": "data",
        "what": "what",
        "mechanism": lambda row: _event(row["event"]),
    }
    query = {"user": user, "after": after, "limit": limit}
    show_rows(target, as_json, "budget/entries", columns, "Nothing was charged.", **query)


def _user(user: str | None, each: bool) -> str | None:
    if user is not None and each:
        raise typer.BadParameter("give --user or --each-user, not both")
    return "*" if each else user


def _whose(user: str | None) -> str:
    return "all together" if user is None else "each" if user == "*" else user


def _about(row: dict[str, Any]) -> str:
    who = {None: "all users together", "*": "each user"}.get(row["user"], row["user"])
    return f"{who}, from {'all data' if row['data'] is None else row['data']},"


def _number(value: float | None) -> str:
    return "no bound" if value is None else f"{value:.4g}"


def _event(event: dict[str, Any]) -> str:
    numbers = [f"{name} {value:g}" for name, value in event.items() if isinstance(value, int | float)]
    return ", ".join([str(event["mechanism"]), *numbers])
