"""Connections of a session process to other nodes: the supervisor opens them, this process uses them."""

from __future__ import annotations

import functools
import socket
import threading
from typing import Any

from syft.core.id_provider import ObjectId
from syft.exceptions import AuthenticationError, QuotaExceededError, SyftError
from syft.grid.isolation.children.services import Services
from syft.grid.isolation.children.worker import SessionWorker
from syft.grid.server.auth import Authenticator
from syft.grid.server.peering import Peering
from syft.grid.server.sessions import SessionRegistry
from syft.workers.delegation.grants import Delegation, DelegationRegistry
from syft.workers.delegation.key_proofs import fingerprint_of
from syft.workers.delegation.peer import OutboundPolicy
from syft.workers.transport import handshake
from syft.workers.transport.websocket import Endpoint

_GRACE = 60.0


class SupervisedOutboundPolicy(OutboundPolicy):
    """The outbound policy of the node, applied by the supervisor."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        super().__init__()
        object.__setattr__(self, "_services", services)

    def place(self, url: str) -> Endpoint:
        """Return an endpoint that the supervisor connects, with TLS where required."""
        self._services.call("check_peer", url)  # type: ignore[attr-defined]
        return Endpoint(url, dial=functools.partial(self._dial, url))

    def _dial(self, url: str, timeout: float, token: bytes, peer: ObjectId | None) -> socket.socket:
        try:
            answer = self._services.ask("dial", url, timeout, token, peer)  # type: ignore[attr-defined]
        except (AuthenticationError, QuotaExceededError):
            raise  # the other node is reachable, and the user can act on the error
        except SyftError as error:
            raise ConnectionError(str(error)) from None
        sock = RelayedSocket(fileno=answer.fds[0])
        sock.channel_binding = answer.header
        return sock


class RelayedSocket(socket.socket):
    """A connection that the supervisor opened.

    Attributes:
        channel_binding: binds proofs to the underlying TLS connection; None for a plain connection.
    """

    channel_binding: bytes | None = None


class SupervisedKey:
    """The identity key of the node: the supervisor signs with it, for processes that run library code only."""

    def __init__(self, public: bytes, services: Services) -> None:
        self.public = public
        self.fingerprint = fingerprint_of(public)
        self._services = services

    def sign(self, by_dialer: bool, parts: tuple[bytes, ...]) -> bytes:
        """Sign a transcript at the supervisor."""
        signature: bytes = self._services.call("prove", by_dialer, parts)
        return signature


class SupervisedDelegations(DelegationRegistry):
    """The delegations of one user's sessions; the supervisor admits the nodes that they expect."""

    def __init__(self, worker: SessionWorker, services: Services, settings: dict[str, Any]) -> None:
        key = SupervisedKey(bytes.fromhex(settings["peer_key"]), services)
        certificate = None if settings["certificate"] is None else bytes.fromhex(settings["certificate"])
        super().__init__(worker, SupervisedOutboundPolicy(services), key, certificate)
        limit = settings["max_message_bytes"]
        self._services = services
        self._peering = Peering(self, SessionRegistry(worker, Authenticator(), _GRACE, limit))

    def admit(self, delegation: Delegation, peers: tuple[ObjectId, ...]) -> tuple[tuple[bytes, bytes, float], ...]:
        """Admit workers on behalf of a client."""
        admitted = super().admit(delegation, peers)
        self._services.call("expect", *(handshake.fingerprint(token) for token, _, _ in admitted))
        return admitted

    def serve(self, key: bytes, fd: int) -> None:
        """Serve a connection of another node that presented the token with this fingerprint."""
        sock = socket.socket(fileno=fd)
        admission = self._admitted.get(key)
        if admission is None or not admission.is_good:
            sock.close()
            return
        threading.Thread(target=self._peering.serve, args=(admission, sock), daemon=True).start()
