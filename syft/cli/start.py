"""`node start`: run a node until it is stopped."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from syft.cli.node_record import NodeRecord, check_id, running
from syft.cli.output import note
from syft.cli.paths import default_store
from syft.cli.serving import announced, check_level, owner_token, settings_of, start_log, told_to_stop, wait_for
from syft.exceptions import SyftError


def start(
    context: typer.Context,
    id: Annotated[str, typer.Option(help="The name of the node.")] = "node",
    data: Annotated[
        Path | None, typer.Option(help="A folder of data to publish: csv, npy, npz, pt, safetensors.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            envvar="SYFT_STORE",
            show_envvar=False,
            help="Where published data is stored: a folder, or postgresql://... (or SYFT_STORE). By default a folder "
            "for each id in RESYFT_HOME, or ~/.local/share/resyft.",
        ),
    ] = None,
    no_store: Annotated[
        bool, typer.Option("--no-store", help="Store nothing: all data is lost when the node stops.")
    ] = False,
    home: Annotated[Path | None, typer.Option(help="The folder of key and users, if not in that of the store.")] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; others than this machine need TLS.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0: any that is free.")] = 0,
    certificate: Annotated[Path | None, typer.Option("--cert", help="The node's certificate, for TLS.")] = None,
    key: Annotated[Path | None, typer.Option(help="The key of the certificate.")] = None,
    ca: Annotated[Path | None, typer.Option(help="The authority of other nodes' certificates.")] = None,
    tokens: Annotated[bool, typer.Option(help="Require a token.")] = True,
    owner: Annotated[str, typer.Option(help="The contact that error texts name, such as an e-mail address.")] = "owner",
    peers: Annotated[
        list[str] | None,
        typer.Option("--peer", help="host:port of another node; connections to all others are refused."),
    ] = None,
    gateway: Annotated[str | None, typer.Option(help="A gateway to register with: https://host:port.")] = None,
    gateway_token_file: Annotated[Path | None, typer.Option(help="A file with a token of the gateway.")] = None,
    gateway_ca: Annotated[Path | None, typer.Option(help="The gateway's authority, if it is not --ca.")] = None,
    address: Annotated[str | None, typer.Option(help="wss://host:port that clients of the gateway connect to.")] = None,
    max_connections: Annotated[int, typer.Option(min=1, help="Connections at once.")] = 512,
    max_user_connections: Annotated[int, typer.Option(min=1, help="Connections of one user at once.")] = 64,
    max_user_processes: Annotated[int, typer.Option(min=1, help="Processes of one user at once.")] = 16,
    max_user_objects: Annotated[int, typer.Option(min=1, help="Objects of one user.")] = 100_000,
    max_user_bytes: Annotated[str, typer.Option(help="Bytes of one user's objects: 500M, 4G.")] = "4G",
    max_objects: Annotated[int, typer.Option(min=1, help="Objects of all users.")] = 1_000_000,
    max_bytes: Annotated[str, typer.Option(help="Bytes of all users' objects.")] = "16G",
    max_message_bytes: Annotated[str, typer.Option(help="The largest accepted message.")] = "1G",
    max_in_flight_bytes: Annotated[
        str | None, typer.Option(help="Bytes of messages that are being received or answered; 4G.")
    ] = None,
    max_user_in_flight_bytes: Annotated[
        str | None, typer.Option(help="The same for one user; twice the largest message.")
    ] = None,
    max_pending: Annotated[int, typer.Option(min=1, help="Connections at once before a token is shown.")] = 256,
    max_address_pending: Annotated[int, typer.Option(min=1, help="The same for one address.")] = 64,
    max_memory: Annotated[
        str | None, typer.Option(help="Memory of the process, beyond which users are refused; most of the machine's.")
    ] = None,
    max_process_memory: Annotated[
        str | None, typer.Option(help="Memory of each process of a user: 8G; by default --max-user-bytes and 4G.")
    ] = None,
    call_seconds: Annotated[float, typer.Option(min=1, help="CPU and elapsed seconds of one call.")] = 600.0,
    step_seconds: Annotated[
        float | None, typer.Option(min=0, help="Planned seconds of one step of private training; measured by default.")
    ] = None,
    min_rows: Annotated[int, typer.Option(min=1, help="Warn of results that depend on fewer rows of data.")] = 10,
    grace: Annotated[float, typer.Option(min=0, help="Seconds that a lost session is kept.")] = 60.0,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads that torch uses.")] = None,
    trust_script_modules: Annotated[
        bool,
        typer.Option(
            "--trust-script-modules",
            help="Run TorchScript of users: programs beyond the table of allowed calls, in their confined processes.",
        ),
    ] = False,
    show_token: Annotated[bool, typer.Option(help="Print the owner's token, not only where it is.")] = False,
    ready_file: Annotated[
        Path | None, typer.Option(help="Write address and port to this file when the node is ready.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print address and port as one line of JSON.")] = False,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Run a node until Ctrl-C. Prints its data, its users, and how to connect."""
    check_level(log_level)
    with contextlib.ExitStack() as closing:
        store = _where(id, store, no_store)
        if store is None and home is None:
            from syft.grid.server.temporary_folders import passing_folder

            home = Path(closing.enter_context(passing_folder("syft-node-")))
        from syft.grid.node.settings import Settings

        settings = settings_of(Settings, {**context.params, "store": store, "home": home, "peers": tuple(peers or ())})
        start_log(log_level)
        membership = _membership(gateway, gateway_token_file, gateway_ca or ca, address)
        _serve(settings, show_token, ready_file, as_json, membership)


def _where(id: str, store: str | None, no_store: bool) -> str | None:
    """Return the store of a node; None with --no-store."""
    if no_store and store is not None:
        raise typer.BadParameter("give --store (or SYFT_STORE), or --no-store; not both")
    if no_store or store is not None:
        return store
    found = default_store(id)
    record = NodeRecord.read(found / "identity")
    if record is not None and record.id != id:  # a file system for which Node and node are one name
        raise SyftError(
            f"The folder {found} is that of the node {record.id}. Pass a store for this one: --store FOLDER"
        )
    return str(found)


def _serve(settings: Any, show_token: bool, ready_file: Path | None, as_json: bool, membership: Any) -> None:
    from syft.cli.banner import facts_of, welcome
    from syft.grid.isolation.confinement.confine import protect_supervisor
    from syft.grid.node.api import ROUTERS
    from syft.grid.node.node import Node

    protect_supervisor()
    folder = settings.identity_folder
    routers = ROUTERS if membership is None else (*ROUTERS, membership.router)
    with contextlib.ExitStack() as closing:
        stopping = closing.enter_context(told_to_stop())
        check_id(folder, settings.id)
        node = Node(settings, routers)
        closing.callback(node.stop)
        node.take_process()
        token_file = owner_token(node.identity, settings.owner, folder) if settings.tokens else None
        node.start()
        stopping.is_serving = True
        closing.enter_context(running(folder))
        if membership is not None:
            membership.start()
            closing.callback(membership.stop)
        certificate = None if settings.certificate is None else str(Path(settings.certificate).resolve())
        record = NodeRecord(settings.id, settings.owner, node.url, certificate, os.getpid())
        record.write(folder)
        closing.callback(dataclasses.replace(record, url=None, pid=None).write, folder)
        facts = facts_of(node, token_file)
        welcome(node, facts, show_token, beside=as_json)
        closing.enter_context(announced(facts, ready_file, as_json))
        wait_for(stopping, node.server)
    note(f"The node {settings.id} has stopped.")


def _membership(url: str | None, token_file: Path | None, ca: Path | None, address: str | None) -> Any:
    if url is None:
        return None
    from syft.cli.api_client import read_token
    from syft.grid.gateway.registration import Membership

    return Membership(url, None if token_file is None else read_token(token_file), ca, address)
