"""Options of several commands, groups of commands for a node, and parsers of durations and sizes."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from syft.cli.api_client import Target
from syft.grid.owner.texts import seconds_of

_BYTES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def duration(text: str) -> float:
    """Return the seconds of a text such as 90s, 30m, 12h, 7d or 2w.

    Example:
        >>> duration("7d"), duration("90s")
        (604800.0, 90.0)
    """
    try:
        return seconds_of(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def size(text: str) -> int:
    """Return the bytes of a text such as 500M, 4G or 4GiB.

    Example:
        >>> size("4G") == size("4GiB") == 4 * 2**30
        True
    """
    found = re.fullmatch(r"(\d{1,15})\s*([KMGT]?)(i?B)?", text.strip(), re.IGNORECASE)
    if found is None:
        raise typer.BadParameter("write a size as a number and K, M, G or T, such as 500M or 4G")
    return int(found[1]) * _BYTES[found[2].upper()]


Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
RowId = Annotated[str, typer.Argument(metavar="ID")]
Newest = Annotated[int, typer.Option(min=1, max=1000, help="The newest ones, at most this many.")]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="At most this many.")]
After = Annotated[int, typer.Option(min=0, help="Leave out the entries up to this number.")]
NewFile = Annotated[Path | None, typer.Option(help="Write it to a new file that only you may read.")]
Lifetime = Annotated[str, typer.Option(help="How long it is valid: 12h, 30d ...")]

# The options that select a node, by the fields of Target.
_TARGET: dict[str, Any] = {
    "node": Annotated[
        str | None,
        typer.Option("--node", help="The id of a node of this account, which was started without --store."),
    ],
    "store": Annotated[
        str | None,
        typer.Option(
            envvar="SYFT_STORE",
            show_envvar=False,
            help="The node's store, on its own machine: a folder, or postgresql://... (or SYFT_STORE).",
        ),
    ],
    "home": Annotated[
        Path | None, typer.Option(help="The folder of the node's key and users, if it is not in that of the store.")
    ],
    "url": Annotated[
        str | None,
        typer.Option(envvar="SYFT_URL", show_envvar=False, help="The node's address: wss://host:port (or SYFT_URL)."),
    ],
    "token_file": Annotated[
        Path | None, typer.Option(help="A file with an owner's token; without it, the variable SYFT_TOKEN.")
    ],
    "ca": Annotated[Path | None, typer.Option(help="The authority that signed the node's certificate: authority.pem.")],
}
# The default of a command's `target`: no node was selected.
NO_TARGET = Target()


class NodeCommands(typer.Typer):
    """Commands for a node: each has the options that select it, in place of its parameter `target`."""

    def __init__(self, help: str) -> None:
        super().__init__(help=help, no_args_is_help=True, rich_markup_mode=None)

    def add(self, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Return a decorator that adds a command."""
        return lambda function: self.command(name)(_with_target(function))


def _with_target(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `target` of a command by the options that select a node."""
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if parameter.name == "target":
            parameters += [parameter.replace(name=n, default=None, annotation=a) for n, a in _TARGET.items()]
        else:
            parameters.append(parameter)

    @functools.wraps(command)
    def run(**given: Any) -> None:
        target = Target(**{name: given.pop(name) for name in _TARGET})
        command(target=target, **given)

    # Typer reads the signature and the annotations of the wrapper, not of the wrapped function.
    del run.__wrapped__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
