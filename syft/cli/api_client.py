"""ApiClient: the connection of an owner's command to a node, over its HTTP API with a token or on its store.

An account that may read the folder of a node's key is its owner: the command makes a token that lasts some minutes. If
the node does not run, the command starts it for its own duration, on a local port that requires this token. So there
is one way in, with one set of checks and one log.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import typer

from syft.cli.node_record import NodeRecord, is_running, pinned_context
from syft.cli.output import give, note, rows
from syft.cli.paths import default_store, only_store
from syft.exceptions import AuthenticationError, SyftError
from syft.grid.owner.api import NodeApi
from syft.grid.owner.api import quoted as quoted
from syft.grid.private_files import is_open
from syft.workers.transport.websocket import Endpoint

_MINUTES = 10 * 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """The node that a command is for, as the user typed it."""

    store: str | None = None
    home: Path | None = None
    url: str | None = None
    token_file: Path | None = None
    ca: Path | None = None
    node: str | None = None

    def located(self) -> Target:
        """Return the target with its store. The default is the folder of the node with this id, or of the only node."""
        if self.store is not None:
            return self
        store = only_store() if self.node is None else default_store(self.node)
        if store is None:
            raise typer.BadParameter(
                "say which node: --node ID or --store FOLDER on its own machine, or --url wss://HOST:PORT with "
                "--token-file FILE"
            )
        return dataclasses.replace(self, store=str(store))


class ApiClient(NodeApi):
    """Requests to one node; `node` is set if this program started it."""

    def __init__(self, where: Endpoint, node: Any = None) -> None:
        super().__init__(where)
        self.node = node


@contextlib.contextmanager
def reach(target: Target) -> Iterator[ApiClient]:
    """Connect to a node, and report on standard error how."""
    if target.url is not None:
        yield ApiClient(_over_network(target))
        return
    target = target.located()
    folder, record = find(target)
    if record.url is not None and is_running(folder):
        note(f"The node {record.id} runs: asking it at {record.url}.")
        if record.is_renewed(folder):
            note(f"The certificate {record.certificate} was renewed: restart the node, so that clients see it.")
        token = _own_token(folder, record)
        yield ApiClient(_local(folder, record, token, target.ca))
        return
    with _started(target, record) as talk:
        note(f"The node {record.id} does not run: working on its store {_shown(str(target.store))}.")
        yield talk


def request(target: Target, method: str, path: str, body: object = None, **query: object) -> Any:
    """Send one request to the API of a node."""
    with reach(target) as client:
        return client.ask(method, path, body, **query)


# The columns of a table: the names of fields, or functions of a row.
Columns = Mapping[str, str | Callable[[dict[str, Any]], object]]


def show_rows(target: Target, as_json: bool, path: str, columns: Columns, nothing: str, **query: object) -> None:
    """Print rows of the API of a node, as a table or as JSON; `nothing` is printed if there are none."""
    found = request(target, "GET", path, **query)
    if as_json:
        give(found)
        return
    lines = [[row[cell] if isinstance(cell, str) else cell(row) for cell in columns.values()] for row in found]
    rows(tuple(columns), lines, nothing)


def _shown(store: str) -> str:
    """Return a store in printable form, without the password of a database."""
    if "://" not in store:
        return store
    parts = urlsplit(store)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


def find(target: Target) -> tuple[Path, NodeRecord]:
    """Return the folder of a node's key, and the record of the node in it."""
    from syft.grid.node.settings import Settings

    settings = Settings(store=target.store, home=target.home)
    folder = settings.identity_folder
    record = None if folder is None else NodeRecord.read(folder)
    if folder is None or record is None:
        raise SyftError(
            f"No node was ever started on the store {_shown(str(target.store))}. Start it first: "
            f"python -m syft node start --id {target.node or 'NAME'} --store {_shown(str(target.store))}"
        )
    if target.node not in (None, record.id):
        raise SyftError(f"The store {_shown(str(target.store))} is that of the node {record.id}, not of {target.node}.")
    return folder, record


def _over_network(target: Target) -> Endpoint:
    from syft.workers.node_client import parse_address
    from syft.workers.websocket_client import where_of

    host, port, secure = parse_address(str(target.url))
    token = read_token(target.token_file) if target.token_file else os.environ.get("SYFT_TOKEN", "").strip()
    if not token:
        raise typer.BadParameter("a token is needed: --token-file FILE, or the environment variable SYFT_TOKEN")
    return where_of(host, port, secure, token, target.ca)


def read_token(path: Path) -> str:
    """Return the token in a file that only its owner may read."""
    if is_open(path.stat()):
        raise AuthenticationError(f"Others may read the token in {path}. Make it yours alone: chmod 600 {path}")
    return path.read_text(encoding="utf-8").strip()


def _local(folder: Path, record: NodeRecord, token: str | None, ca: Path | None) -> Endpoint:
    """Return the address of the node that runs on this machine, trusted by its own certificate or by `ca`."""
    from syft.workers.transport.tls import client_context

    shown = record.shown(folder)
    context = None if shown is None else pinned_context(shown) if ca is None else client_context(ca)
    parts = urlsplit(str(record.url))
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(parts.hostname or "", parts.netloc.rpartition(":")[0])  # noqa: S104
    return Endpoint(f"{parts.scheme}://{host}:{parts.port}", token, context)


def _own_token(folder: Path, record: NodeRecord) -> str:
    """Make a token with the node's own key. The user database is not opened, because that is slow by design."""
    from syft.grid.identity.database import Database
    from syft.grid.identity.keys import node_key
    from syft.grid.identity.revocations import Revocations
    from syft.grid.identity.tokens import Tokens

    database = Database(folder)
    try:
        tokens = Tokens(record.id, node_key(folder), Revocations(database))
        return tokens.issue(owner_name(record.owner), "owner", _MINUTES)
    finally:
        database.close()


def owner_name(owner: str) -> str:
    """Return the user name of the owner."""
    from syft.exceptions import AccountError
    from syft.grid.identity import user_name

    try:
        return user_name(owner)
    except AccountError:
        return "owner"


@contextlib.contextmanager
def _started(target: Target, record: NodeRecord) -> Iterator[ApiClient]:
    from syft.grid.node.api import ROUTERS
    from syft.grid.node.node import Node
    from syft.grid.node.settings import Settings

    settings = Settings(id=record.id, owner=record.owner, store=target.store, home=target.home)
    node = Node(settings, ROUTERS, serves_users=False)
    try:
        node.start()
        token = node.identity.tokens.issue(owner_name(record.owner), "owner", _MINUTES)
        yield ApiClient(Endpoint(node.url, token, None), node)
    finally:
        node.stop()
