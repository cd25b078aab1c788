"""`node budget`: limits on the privacy loss of data sets, and what was spent."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from syft.cli.api_client import Target, reach
from syft.cli.options import Json
from syft.cli.output import give, moment, rows, say
from syft.cli.target_options import NO_TARGET, with_target

app = typer.Typer(
    help="Privacy budgets: how much may be learnt from data by answers with noise.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Data = Annotated[
    str | None,
    typer.Option(help="The id of published data (node data list), or dataset:KEY; without it all data together."),
]
User = Annotated[str | None, typer.Option(help="Only for this user; without it for all users together.")]
Each = Annotated[bool, typer.Option("--each-user", help="For each user by itself.")]


@app.command("set")
@with_target
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
    with reach(target) as talk:
        found = talk.ask("PUT", "budget", body)
    for row in found:
        terms = f"epsilon {epsilon:g} (delta {delta:g}, {row['neighbours']})"
        say(f"Set: {_about(row)} may spend {terms}; {_number(row['spent'])} is spent.")


@app.command("remove")
@with_target
def remove_limit(
    data: Data = None,
    user: User = None,
    each_user: Each = False,
    target: Target = NO_TARGET,
) -> None:
    """Take a limit away. Data that no limit names is closed; what was spent stays spent."""
    with reach(target) as talk:
        talk.ask("DELETE", "budget", data=data, user=_user(user, each_user))
    say("Removed. The amounts spent stay spent.")


@app.command("show")
@with_target
def show(
    user: Annotated[str | None, typer.Option(help="Only what bounds this user.")] = None,
    target: Target = NO_TARGET,
    as_json: Json = False,
) -> None:
    """Show the limits, and what is spent and left of each. With a user's own token: what is left to that user."""
    with reach(target) as talk:
        found = talk.ask("GET", "budget", user=user)
    if as_json:
        give(found)
        return
    lines = [
        (
            r["data"] or "all data", _whose(r["user"]), f"{r['epsilon']:g}", f"{r['delta']:g}", _number(r["spent"]),
            _number(r["left"]), r["releases"], r["neighbours"],
        )
        for r in found
    ]  # fmt: skip
    columns = ("data", "user", "epsilon", "delta", "spent", "left", "releases", "neighbours")
    rows(columns, lines, "There are no limits, so all data is closed: node budget set --data ID --epsilon 1")


@app.command("entries")
@with_target
def entries(
    user: Annotated[str | None, typer.Option(help="Only what this user was charged.")] = None,
    after: Annotated[int, typer.Option(min=0, help="Leave out the entries up to this number.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most this many.")] = 100,
    target: Target = NO_TARGET,
    as_json: Json = False,
) -> None:
    """Show the charges and their users, the oldest entry first."""
    with reach(target) as talk:
        found = talk.ask("GET", "budget/entries", user=user, after=after, limit=limit)
    if as_json:
        give(found)
        return
    lines = [(r["number"], moment(r["at"]), r["user"], r["data"], r["what"], _event(r["event"])) for r in found]
    rows(("entry", "time", "user", "data", "what", "mechanism"), lines, "Nothing was charged.")


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
