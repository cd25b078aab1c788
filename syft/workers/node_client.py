"""NodeClient: a node, as seen by its clients; and `connect`, which makes one from an address."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import urlsplit

from syft._suggestions import suggests_keywords
from syft.core.context import local_worker
from syft.core.id_provider import ObjectId, is_id
from syft.core.tensor import below
from syft.exceptions import AuthenticationError, InvalidUserError, SyftError
from syft.hosting.client import HostingClient
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.request import Request, request_together
from syft.workers.budget_client import BudgetClient
from syft.workers.transport.http import ask
from syft.workers.transport.tls import is_loopback
from syft.workers.websocket_client import WebsocketClientWorker, unreachable, where_of

if TYPE_CHECKING:
    from syft.hook.torch_hook import TorchHook
    from syft.workers.transport.websocket import Endpoint

_SECURE = {"ws": False, "http": False, "wss": True, "https": True}


class Credential(Protocol):
    """User and password, as `AccountCredential` has them."""

    def json(self) -> dict[str, str]:
        """Return the fields "username" and "password"."""
        ...


class NodeClient(WebsocketClientWorker, HostingClient):
    """A node, by its address.

    Args:
        hook: the TorchHook.
        address: wss://host:port, or ws://localhost:port for a node of this machine.
        credential: user and password, exchanged for a token of the node (`AccountCredential`).
        id: the name of the node; 0: requested from the node.
        is_client_worker: accepted and ignored.
        log_msgs: keep every message in `msg_history` (those of this side are not).
        verbose: log events of the connection.
        encoding: accepted and ignored: nothing is sent as text.
        token: the bearer token for the node, instead of a credential.
        ca: the file of the authority that signed the node's certificate; None: those of the system.
        auto_add: register it and the workers known to the local worker with each other.

    Example:
        >>> node = sy.connect("wss://hospital-a.example:8777", token=token, ca="team.pem")  # doctest: +SKIP
        >>> node.search("#biopsies")  # doctest: +SKIP
    """

    stores_apart = True

    def __init__(
        self,
        hook: TorchHook | None,
        address: str,
        credential: Credential | None = None,
        id: ObjectId | None = 0,
        is_client_worker: bool = False,
        log_msgs: bool = False,
        verbose: bool = False,
        encoding: str = "ISO-8859-1",
        token: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        auto_add: bool = True,
    ) -> None:
        if "_where" in self.__dict__:
            return  # the registered client of this program
        host, port, secure = parse_address(address)
        where = where_of(host, port, secure, token, ca)
        try:
            if credential is not None:
                token = _log_in(where, credential)
            node_id = ask(where, "GET", "/health").get("id") if not id else id
        except OSError as error:
            raise unreachable(error, where.url) from None
        if not is_id(node_id):
            raise SyftError(f"The server at {address} is not a node.")
        super().__init__(
            hook, host, port, secure, node_id, False, log_msgs, verbose, token=token, ca=ca, auto_add=auto_add
        )

    @classmethod
    def _registered(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Self | None:
        """Return the client that this program has of a node without tokens, where it is one user."""
        given = cls._given(args, kwargs)
        known = getattr(given.get("hook"), "local_worker", None)
        is_named = any(given.get(key) is not None for key in ("token", "credential"))
        if known is None or is_named or not given.get("auto_add", True):
            return None
        address = str(given.get("address", ""))
        for worker in list(known._known_workers.values()):
            if type(worker) is cls and worker._where.token is None and _is_same(worker.url, address):
                ids = {worker.id, given.get("id") or worker.id, _id_at(address)}
                return worker if len(ids) == 1 else None
        return None

    @property
    def budget(self) -> BudgetClient:
        """The privacy budgets: `node.budget()` returns your remaining budgets, `node.budget.set(...)` sets one."""
        return BudgetClient(self)

    def request(self, objects: Any, reason: str) -> Request:
        """Request the release of several results together: the owner approves all of them, or none.

        Args:
            objects: a dictionary or a list of pointers to objects at this node.
            reason: the purpose; the owner reads it.

        Returns:
            The request. Once it is approved, `request.get()` returns the copies that were sealed when you asked.
        """
        named = tuple(map(str, objects)) if isinstance(objects, dict) else None
        pointers = [below(one) for one in (objects.values() if isinstance(objects, dict) else objects)]
        if not all(isinstance(one, ObjectPointer) and one.location is self for one in pointers):
            raise SyftError(f"request() requires pointers to objects at {self.id!r}.")
        return request_together(pointers, str(reason), named)

    def find_request(self, request_id: str) -> Request:
        """Return a request that you made earlier, in this program or another; `request.get()` fetches its copy.

        Args:
            request_id: its id, `request.id`.

        Raises:
            ObjectNotFoundError: you made no request with this id.
        """
        stream = local_worker().stream_to(self)
        return Request(stream, stream.request_status(str(request_id)))

    def __repr__(self) -> str:
        return f"<NodeClient {self.id} at {self.url}>"


def parse_address(address: str) -> tuple[str, int, bool]:
    """Return host, port and whether TLS is used."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    secure = _SECURE.get(parts.scheme)
    if secure is None or not parts.hostname:
        raise SyftError(f"{address!r} is not the address of a node: write it as wss://host:port.")
    return parts.hostname, parts.port or (443 if secure else 80), secure


def place_of(url: str) -> str:
    """Return the canonical form of an address."""
    host, port, secure = parse_address(url)
    return f"{'wss' if secure else 'ws'}://{host.casefold()}:{port}"


def _is_same(url: str, address: str) -> bool:
    """Return whether two addresses have the same port of this machine."""
    (host, *rest), (other, *others) = parse_address(url), parse_address(address)
    return rest == others and is_loopback(host) and is_loopback(other)


def _id_at(address: str) -> object:
    """Return the id of the node of this machine at an address; None if there is none."""
    host, port, secure = parse_address(address)
    try:
        return None if secure else ask(where_of(host, port, False, None, None), "GET", "/health").get("id")
    except (OSError, SyftError, AttributeError):
        return None


def _log_in(where: Endpoint, credential: Credential) -> str:
    """Exchange user and password for a token."""
    given = credential.json()
    try:
        answer = ask(where, "POST", "/v1/login", {"user": given.get("username"), "password": given.get("password")})
    except AuthenticationError as error:
        raise InvalidUserError(f"Invalid user. {error}") from None
    token = answer.get("token") if isinstance(answer, dict) else None
    if type(token) is not str:
        raise SyftError("The node did not return a token.")
    return token


@suggests_keywords
def connect(
    address: str,
    token: str | None = None,
    ca: str | os.PathLike[str] | None = None,
    credential: Credential | None = None,
    hook: TorchHook | None = None,
) -> NodeClient:
    """Connect to a node.

    Args:
        address: wss://host:port, or ws://localhost:port for a node of this machine.
        token: the bearer token from the owner of the node; by default the environment variable SYFT_TOKEN.
        ca: the file of the authority that signed the node's certificate; None: those of the system.
        credential: user and password instead of a token (`AccountCredential`).
        hook: the TorchHook; by default the active one.
    """
    if hook is None:
        hook = getattr(local_worker(), "hook", None)
    if token is None and credential is None:
        token = os.environ.get("SYFT_TOKEN") or None
    return NodeClient(hook, address, credential, token=token, ca=ca)
