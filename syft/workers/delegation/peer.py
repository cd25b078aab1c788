"""DelegatedNode: another node, reached by a worker on behalf of one client; and the policy for its address."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import os
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from syft.config import current
from syft.core.id_provider import ObjectId
from syft.core.labels import printable
from syft.exceptions import AuthenticationError, GetNotPermittedError, NodeLostError, SyftError
from syft.workers.base import BaseWorker
from syft.workers.delegation import dialer
from syft.workers.execution.session import serving
from syft.workers.peer import PeerWorker
from syft.workers.transport.pipe import SocketPipe
from syft.workers.transport.reconnecting_stream import WebsocketStream
from syft.workers.transport.tls import client_context, is_loopback
from syft.workers.transport.websocket import Endpoint

if TYPE_CHECKING:
    from syft.workers.delegation.grants import Delegation

logger = logging.getLogger("syft.workers")
_PORTS = {"ws": 80, "wss": 443}
_MAX_URL = 300
_numbers = itertools.count(1)


@dataclasses.dataclass(frozen=True, slots=True)
class OutboundPolicy:
    """The addresses that a worker connects to on behalf of clients.

    Clients name addresses, so they must not make the worker connect to arbitrary servers of its network: peers need a
    certificate of the team's own authority, or an entry in the owner's list.

    Attributes:
        ca: the file of the authority that signs the certificates of peers.
        local: whether the worker serves this machine only; then it may connect to this machine without TLS.
        allowed: the only addresses that it connects to, as "host:port"; empty: all that the other rules allow.
    """

    ca: str | os.PathLike[str] | None = None
    local: bool = False
    allowed: tuple[str, ...] = ()

    def place(self, url: str) -> Endpoint:
        """Return the endpoint of an address.

        Raises:
            SyftError: the policy refuses the address.
        """
        host, port, secure = _parse(url)
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        allowed = {entry.casefold() for entry in self.allowed}
        if allowed and place not in allowed:
            raise SyftError(f"This node connects to the nodes on its owner's list only, and {place} is not on it.")
        if not secure:
            if not self.local or not is_loopback(host):
                raise SyftError(f"This node connects to other nodes over TLS only: name {place} by wss://.")
            return Endpoint(f"ws://{place}")
        if self.ca is None and not allowed:
            raise SyftError(
                "This node has no authority that signs other nodes' certificates, so it connects to none. "
                "Its owner starts it with ca=..., or with a list of peers."
            )
        return Endpoint(f"wss://{place}", None, client_context(self.ca))


def _parse(url: str) -> tuple[str, int, bool]:
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
        bare = not parts.username and not parts.password and parts.path in ("", "/")
        if bare and parts.scheme in _PORTS and parts.hostname and len(url) <= _MAX_URL:
            if not parts.query and not parts.fragment and url.isascii() and url.isprintable():
                return parts.hostname.casefold(), port, parts.scheme == "wss"
    except ValueError:  # an invalid port or address
        pass
    raise SyftError(f"{printable(url[:80])!r} is not the address of a node: it has the form wss://host:port.")


class DelegatedNode(PeerWorker):
    """Another node, as a worker reaches it on behalf of one client only."""

    def __init__(self, id: ObjectId, worker: Any, delegation: Delegation) -> None:
        super().__init__(id)
        self.delegation = delegation
        self._worker = worker
        self._where: Endpoint | None = None
        self._secrets = (b"", b"")
        # The key of streams, so that those of different clients to the same node never mix.
        self._key = ("peer", next(_numbers), id)

    @property
    def stream_key(self) -> Any:
        """The key of the worker's stream to it."""
        return self._key

    def move_to(self, where: Endpoint, token: bytes, proof: bytes) -> None:
        """Set the address and the secrets to use from now on."""
        self._where, self._secrets = where, (token, proof)

    def connect(self, purpose: str = "") -> socket.socket:
        """Open a connection to it, for one purpose."""
        try:
            sock = dialer.connect(self._place(), *self._secrets, purpose, self.timeout, self.id)
            self.delegation.hold(sock)
            return sock
        except (OSError, AuthenticationError) as error:
            raise self._unreachable(error) from None

    def connect_proven(self, purpose: str) -> tuple[socket.socket, str | None]:
        """Open a connection over which both nodes prove their identities.

        Returns:
            The socket, and the fingerprint of the key that the node proved to hold; None if it did not.
        """
        sock = self.connect(purpose)
        return sock, self._worker.delegations.prover.dial(sock, self.id, purpose, self.timeout)

    @property
    def timeout(self) -> float:
        """Seconds to wait for its responses."""
        return float(min(current().stream_timeout, self.delegation.timeout))

    def dial(self, timeout: float) -> SocketPipe:
        """Open a connection for a stream."""
        return dialer.open_pipe(self._place(), *self._secrets, min(timeout, self.timeout), self.id)

    def open_stream(self, client: BaseWorker) -> WebsocketStream:
        """Open the stream of the worker."""
        try:
            stream = WebsocketStream(client, self, self._place(), self.dial, self._check_use)
        except (OSError, AuthenticationError, SyftError) as error:
            raise self._unreachable(error) from None
        if stream.node_id != self.id:
            stream.close()
            raise self._unreachable(ConnectionError("it has another id"))
        return stream

    def _check_use(self) -> None:
        """Refuse requests of other clients: a pointer held here leads there on behalf of the client that made it."""
        session = serving.get()
        if session is not None and session.client_id != self.delegation.user:
            raise GetNotPermittedError(
                f"This object is on node {self.id!r}, reached on behalf of another client. Only that client can use it."
            )

    def why_lost(self) -> str:
        """Return the known reason why it can't be reached."""
        return f"{self._worker.id!r} can't reach it."

    def _unreachable(self, error: Exception) -> NodeLostError:
        # The client that named the address must not learn what else answers there.
        logger.info("Node %r can't be reached for %r: %s", self.id, self.delegation.user, error)
        return NodeLostError(self.id, f"it can't be reached from {self._worker.id!r}.")

    def _place(self) -> Endpoint:
        if self._where is None or self.delegation.is_over:
            raise ConnectionError("the client is gone")
        return self._where
