"""NodeOwner: everything that the owner of a node decides, from Python."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Sequence
from typing import Any, Self

import torch

from syft.display import table_html
from syft.grid.owner.accounts import AuditTrail, TokenIssuer, UserList
from syft.grid.owner.api import NodeApi
from syft.grid.owner.data import PrivacyBudgets, PublishedData
from syft.grid.owner.programs import ProgramList
from syft.grid.owner.requests import GrantList, RequestList
from syft.workers.node_client import NodeClient, parse_address
from syft.workers.websocket_client import where_of


class NodeOwner:
    """The owner of a node. Its parts have the names of the commands of `python -m syft node`.

    Attributes:
        requests: the requests of users, to approve or deny.
        grants: the approved requests.
        data: the published data.
        budget: the privacy budgets.
        programs: the allowed programs.
        users: the users with a password.
        tokens: new tokens.
        audit: the log.

    Args:
        api: the API of the node, with an owner's token.

    Example:
        >>> owner = NodeOwner.connect("wss://hospital-a.example:8777", token, ca="team.pem")  # doctest: +SKIP
        >>> owner.requests[-1].approve(expires="7d")  # doctest: +SKIP
    """

    def __init__(self, api: NodeApi) -> None:
        self._api = api
        self.requests = RequestList(api)
        self.grants = GrantList(api)
        self.data = PublishedData(api)
        self.budget = PrivacyBudgets(api)
        self.programs = ProgramList(api)
        self.users = UserList(api)
        self.tokens = TokenIssuer(api)
        self.audit = AuditTrail(api)

    @classmethod
    def connect(cls, address: str, token: str, ca: str | os.PathLike[str] | None = None) -> Self:
        """Return the owner of a node at an address.

        Args:
            address: wss://host:port.
            token: an owner's token.
            ca: the file of the authority that signed the node's certificate; None: those of the system.
        """
        host, port, secure = parse_address(address)
        return cls(NodeApi(where_of(host, port, secure, token, ca)))

    def share(self, data: object, users: Sequence[str] | str = (), public: bool = False) -> None:
        """Set the users who may read a data set, as `data.share` does."""
        self.data.share(data, users, public)

    def publish(self, name: str, tensor: torch.Tensor, tags: Iterable[str] = (), description: str | None = None) -> str:
        """Publish a tensor as private data, as `data.publish` does, and return its id."""
        return self.data.publish(name, tensor, tags, description)

    @functools.cached_property
    def client(self) -> NodeClient:
        """The node as a worker with the owner's rights, for instance for `client.add_dataset(...)`."""
        return self._api.client()

    def status(self) -> dict[str, Any]:
        """Return the status of the node: version, uptime, objects, bytes, pending requests."""
        found: dict[str, Any] = self._api.ask("GET", "status")
        return found

    def close(self) -> None:
        """Close the connection of `client`, if it was used."""
        client = self.__dict__.pop("client", None)
        if client is not None:
            client.close()

    def _facts(self) -> tuple[str, list[tuple[str, object]]]:
        status = self.status()
        return f"Owner of the node {status['id']}", [
            ("address", self._api.where.url),
            ("published", f"{status['published']} objects"),
            ("pending", f"{status['pending_requests']} requests"),
            ("next", "owner.requests, owner.data, owner.budget"),
        ]

    def __repr__(self) -> str:
        title, facts = self._facts()
        return "\n".join([title, *(f"  {name:<10} {value}" for name, value in facts)])

    def _repr_html_(self) -> str:
        return table_html(*self._facts())
