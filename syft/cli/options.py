"""Options of several commands, and parsers of durations and sizes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_BYTES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def duration(text: str) -> float:
    """Return the seconds of a text such as 90s, 30m, 12h, 7d or 2w.

    Example:
        >>> duration("7d"), duration("90s")
        (604800.0, 90.0)
    """
    found = re.fullmatch(r"(\d{1,9})([smhdw])", text.strip())
    if found is None or int(found[1]) == 0:
        raise typer.BadParameter("write a duration as a number and s, m, h, d or w, such as 12h or 30d")
    return float(int(found[1]) * _SECONDS[found[2]])


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


NodeId = Annotated[
    str | None,
    typer.Option("--node", help="The id of a node of this account, which was started without --store."),
]
Store = Annotated[
    str | None,
    typer.Option(
        envvar="SYFT_STORE",
        show_envvar=False,
        help="The node's store, on its own machine: a folder, or postgresql://... (or SYFT_STORE).",
    ),
]
Home = Annotated[
    Path | None, typer.Option(help="The folder of the node's key and users, if it is not in that of the store.")
]
Url = Annotated[
    str | None,
    typer.Option(envvar="SYFT_URL", show_envvar=False, help="The node's address: wss://host:port (or SYFT_URL)."),
]
TokenFile = Annotated[
    Path | None, typer.Option(help="A file with an owner's token; without it, the variable SYFT_TOKEN.")
]
Ca = Annotated[Path | None, typer.Option(help="The authority that signed the node's certificate: authority.pem.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
