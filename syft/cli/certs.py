"""`node certs`: a team's own authority, and the certificates of its nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from syft.cli.output import say

app = typer.Typer(
    help="A team's own authority, and certificates of its nodes.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("authority")
def make_authority(
    folder: Annotated[Path, typer.Argument(help="Where its two files go.")],
    name: Annotated[str, typer.Option(help="Of the team.")],
    days: Annotated[int, typer.Option(min=1, max=36500, help="How long it is valid.")] = 3650,
) -> None:
    """Make an authority, once for a team. Keep its key; give authority.pem to clients."""
    from syft.grid import certificates

    made = certificates.make_authority(folder, name, days=days)
    say(f"Give {made.certificate} to clients and nodes; it is public.")
    say(f"Keep {made.key} secret: anybody who has it can pose as any node.")


@app.command("issue")
def issue(
    authority: Annotated[Path, typer.Option(help="The folder of the authority.")],
    host: Annotated[list[str], typer.Option(help="A name or address that clients use; may be given several times.")],
    folder: Annotated[Path, typer.Argument(help="Where the certificate and its key go.")],
    days: Annotated[int, typer.Option(min=1, max=36500, help="How long it is valid.")] = 397,
    name: Annotated[str, typer.Option(help="Of the two files.")] = "node",
    id: Annotated[
        str | None, typer.Option(help="The id of the node; no other node can use the certificate then.")
    ] = None,
) -> None:
    """Make the certificate of a node, or renew it."""
    from syft.grid import certificates

    made = certificates.issue(authority, host, folder, days, name=name, node_id=id)
    say(f"Start the node with {made.certificate} and {made.key}:")
    named = "" if id is None else f"--id {id} "
    say(f"  python -m syft node start {named}--cert {made.certificate} --key {made.key} ...")
    say(f"Its fingerprint is {certificates.fingerprint(made.certificate)}")
