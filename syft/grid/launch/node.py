"""LaunchedNode: a node in a child process, with its owner and its users in this program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from syft.core.context import local_worker
from syft.display import table_html
from syft.exceptions import AccountError, SyftError
from syft.grid.identity.names import user_name
from syft.grid.launch.process import LaunchedProcess
from syft.grid.owner.api import NodeApi
from syft.grid.owner.client import NodeOwner
from syft.grid.owner.texts import shape_of
from syft.workers.node_client import NodeClient
from syft.workers.websocket_client import where_of

_LISTED = 6


class LaunchedNode:
    """A node that this program launched, with everybody's part in it. It ends with this program.

    `owner, alice = node` unpacks it into the owner and the clients of its users.

    Attributes:
        id: its name.
        url: its address.
        ca: the file of the authority of its certificate.
        owner: its owner: requests, data, budgets (`NodeOwner`).
        users: the clients of its users, by name.

    Args:
        process: its process, which is ready.
        ca: the file of the authority.
        users: the names of its users.
    """

    def __init__(self, process: LaunchedProcess, ca: Path, users: Sequence[str]) -> None:
        self.process = process
        self.id: str = process.facts["id"]
        self.url: str = process.facts["url"]
        self.ca = ca
        parts = urlsplit(self.url)
        token = Path(process.facts["owner_token_file"]).read_text().strip()
        self.owner = NodeOwner(NodeApi(where_of(parts.hostname or "", parts.port or 0, True, token, ca)))
        self.users = NodeUsers(self, users)

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self.process.process.pid

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        return self.process.is_alive

    def client(self, user: str) -> NodeClient:
        """Return the node as one of its users sees it: `node.users[user]`."""
        return self.users[user]

    def add_user(self, user: str) -> NodeClient:
        """Add a user, and return the user's client."""
        return self.users.add(user)

    def token(self, user: str) -> str:
        """Return a new token of a user, for another program: `sy.connect(node.url, token=token, ca=node.ca)`."""
        if self.users.known(user) is None:
            raise SyftError(self.users.unknown(user))
        return self.owner.tokens.issue(user)

    def log(self) -> str:
        """Return the log of the node: connections, refusals and warnings."""
        return self.process.log()

    def stop(self) -> None:
        """Stop the node; its data is deleted, unless it was launched with a store. Idempotent."""
        try:
            self.release()
        finally:
            self.process.stop()

    def release(self) -> None:
        """Close the connections of this program to the node."""
        if self.is_running:
            self.users.close()
            self.owner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __iter__(self) -> Iterator[Any]:
        yield self.owner
        yield from self.users.values()

    def _facts(self) -> list[tuple[str, object]]:
        if not self.is_running:
            return [("state", "stopped; node.log() has its log"), ("next", f"sy.launch({self.id!r}, ...)")]
        data = self.owner.data.list(limit=_LISTED + 1)
        lines = [f"{' '.join(sorted(row.tags))}  {shape_of(row.shape)} {row.dtype or row.kind}" for row in data]
        more = ["..."] if len(lines) > _LISTED else []
        shown: list[tuple[str, object]] = [("address", self.url), ("process", self.pid)]
        shown += [("data", line) for line in [*lines[:_LISTED], *more] or ["none; owner.publish('ages', tensor)"]]
        user = next(iter(self.users), None)
        tag = min(data[0].tags, default="#tag") if len(data) else "#tag"
        client = f"node.users[{user!r}].search({tag!r})" if user is not None else "node.add_user('alice')"
        return [*shown, ("users", ", ".join(self.users) or "none"), ("next", f"{client}, node.owner.requests")]

    def __repr__(self) -> str:
        return "\n".join([f"Node {self.id}", *(f"  {name:<8} {value}" for name, value in self._facts())])

    def _repr_html_(self) -> str:
        return table_html(f"Node {self.id}", self._facts())


class NodeUsers(Mapping[str, NodeClient]):
    """The clients of a node's users, by name; each connects at its first use."""

    def __init__(self, node: LaunchedNode, names: Sequence[str]) -> None:
        self._node = node
        self._clients: dict[str, NodeClient | None] = dict.fromkeys(names)

    def __getitem__(self, user: str) -> NodeClient:
        name = self.known(user)
        if name is None:
            raise SyftError(self.unknown(user))
        client = self._clients[name]
        if client is None:
            token, hook = self._node.owner.tokens.issue(name), local_worker().hook
            client = self._clients[name] = NodeClient(hook, self._node.url, token=token, ca=self._node.ca)
        return client

    def add(self, user: str) -> NodeClient:
        """Add a user, and return the user's client."""
        self._clients.setdefault(user_name(user))
        return self[user]

    def known(self, user: object) -> str | None:
        """Return the name of a user as the node writes it; None if there is no such user."""
        try:
            name = user_name(str(user))
        except AccountError:
            return None
        return name if name in self._clients else None

    def unknown(self, user: object) -> str:
        """Return the error for a user that the node does not have."""
        names = ", ".join(self._clients) or "none"
        return f"The node {self._node.id!r} has no user {user!r}. Its users: {names}. Add one: node.add_user({user!r})."

    def close(self) -> None:
        """Close all clients, and take them out of the local worker's address book."""
        book = getattr(local_worker(required=False), "_known_workers", {})
        for client in [client for client in self._clients.values() if client is not None]:
            try:
                client.close()
            finally:
                if book.get(client.id) is client:
                    del book[client.id]

    def __contains__(self, user: object) -> bool:
        return self.known(user) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._clients)

    def __len__(self) -> int:
        return len(self._clients)

    def __repr__(self) -> str:
        return f"<users of the node {self._node.id!r}: {', '.join(self._clients) or 'none'}>"
