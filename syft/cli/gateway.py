"""`gateway`: a directory of nodes, for public grids. It sees names, addresses and tags; never data."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from syft.cli.options import Lifetime, NewFile, duration
from syft.cli.output import moment, note, say
from syft.cli.serving import announced, check_level, owner_token, settings_of, start_log, told_to_stop, wait_for
from syft.exceptions import AccountError

app = typer.Typer(help="Run a gateway: a directory of nodes.", no_args_is_help=True, rich_markup_mode=None)


@app.command("start")
def start(
    context: typer.Context,
    id: Annotated[str, typer.Option(help="The name of the gateway.")] = "gateway",
    store: Annotated[Path | None, typer.Option(help="The folder of its key, users and nodes.")] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; others than this machine need TLS.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0: any that is free.")] = 0,
    certificate: Annotated[Path | None, typer.Option("--cert", help="Its certificate, for TLS.")] = None,
    key: Annotated[Path | None, typer.Option(help="The key of the certificate.")] = None,
    ca: Annotated[Path | None, typer.Option(help="The authority of the nodes' certificates.")] = None,
    tokens: Annotated[bool, typer.Option(help="Require a token.")] = True,
    lifetime: Annotated[float, typer.Option(min=1, help="Seconds until a silent node is removed.")] = 30.0,
    max_nodes: Annotated[int, typer.Option(min=1, help="The largest number of nodes.")] = 1024,
    max_user_nodes: Annotated[int, typer.Option(min=1, help="The largest number of nodes of one user.")] = 256,
    ready_file: Annotated[
        Path | None, typer.Option(help="Write address and port to this file when the server is ready.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print address and port as one line of JSON.")] = False,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Run a gateway until Ctrl-C."""
    check_level(log_level)
    from syft.grid.gateway import GatewaySettings

    settings = settings_of(GatewaySettings, context.params)
    start_log(log_level)
    _serve(settings, ready_file, as_json)


def _serve(settings: Any, ready_file: Path | None, as_json: bool) -> None:
    from syft.grid.gateway import Gateway

    with contextlib.ExitStack() as closing:
        stopping = closing.enter_context(told_to_stop())
        gateway = Gateway(settings)
        closing.callback(gateway.stop)
        token_file = None
        if settings.tokens and settings.store is not None:
            token_file = owner_token(gateway.identity, "owner", Path(settings.store) / "identity")
        gateway.start()
        stopping.is_serving = True
        facts = {
            "id": settings.id,
            "url": gateway.url,
            "port": gateway.port,
            "pid": os.getpid(),
            "owner_token_file": None if token_file is None else str(token_file),
        }
        say(f"Gateway {settings.id}", style="bold", error=as_json)
        say(f"  at             {gateway.url}", error=as_json)
        say(
            f"  to             {'those with a token' if settings.tokens else 'programs of this machine'}", error=as_json
        )
        say(f"  store          {settings.store or 'none: its state is lost when it stops'}", error=as_json)
        if token_file is not None:
            say(f"  owner's token  {token_file}", error=as_json)
        joining = f"python -m syft node start --gateway {gateway.url}"
        if settings.tokens and settings.store is None:
            say("It has no store, so it can't issue tokens: start it with --store FOLDER.", error=as_json)
        elif settings.tokens:
            say("A node's operator, or a client, gets a token with:", error=as_json)
            say(
                f"    python -m syft gateway token --store {settings.store} --id {settings.id} --user NAME",
                error=as_json,
            )
            joining += " --gateway-token-file FILE"
        say(f"A node joins with: {joining} ...", error=as_json)
        say("Stop it with Ctrl-C.\n", error=as_json)
        closing.enter_context(announced(facts, ready_file, as_json))
        wait_for(stopping, gateway.server)
    note(f"The gateway {settings.id} has stopped.")


@app.command("token")
def issue_token(
    user: Annotated[str, typer.Option(help="The user of the token: a node's operator, or a client.")],
    store: Annotated[Path, typer.Option(help="The folder of the gateway.")],
    id: Annotated[str, typer.Option(help="The name of the gateway.")] = "gateway",
    expires: Lifetime = "30d",
    output: NewFile = None,
) -> None:
    """Make a token of a gateway, whether it runs or not."""
    from syft.grid.identity import NodeIdentity
    from syft.grid.private_files import new_file

    seconds = duration(expires)
    folder = store / "identity"
    if not folder.is_dir():
        raise AccountError(f"No gateway was ever started on {store}. Start it first: python -m syft gateway start")
    with NodeIdentity(folder, id) as identity:
        token = identity.tokens.issue(user, "user", seconds)
        until = moment(identity.tokens.read(token).expires)
    if output is None:
        sys.stdout.write(f"{token}\n")
    elif not new_file(output, f"{token}\n".encode()):
        raise AccountError(f"{output} exists already. Name a new file.")
    note(f"A token of {user}{'' if output is None else f', is in {output}'}. It is valid until {until}.")
