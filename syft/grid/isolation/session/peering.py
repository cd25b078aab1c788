"""How a session process computes with other nodes: the supervisor opens the connections, this process uses them."""

from __future__ import annotations

import functools
import socket
import threading
from typing import Any

from syft.core.id_provider import ObjectId
from syft.exceptions import AuthenticationError, QuotaExceededError, SyftError
from syft.grid.isolation.children.services import Services
from syft.grid.server.auth import OpenAuthenticator
from syft.grid.server.peering import Peering
from syft.grid.server.sessions import SessionRegistry
from syft.workers.delegation.grants import Delegation, DelegationRegistry
from syft.workers.delegation.key_proofs import fingerprint_of
from syft.workers.delegation.peer import OutboundPolicy
from syft.workers.transport import framing
from syft.workers.transport.websocket import Endpoint

_GRACE = 60.0


class SupervisedRules(OutboundPolicy):
    """The rules of the supervisor on which nodes this one connects to.

    Args:
        services: the supervisor.
    """

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        super().__init__()
        object.__setattr__(self, "_services", services)

    def place(self, url: str) -> Endpoint:
        """Return how an address is connected to: by the supervisor, which encrypts where it has to."""
        self._services.call("check_peer", url)  # type: ignore[attr-defined]
        return Endpoint(url, dial=functools.partial(self._dial, url))

    def _dial(self, url: str, timeout: float, token: bytes, peer: ObjectId | None) -> socket.socket:
        try:
            answer = self._services.ask("dial", url, timeout, token, peer)  # type: ignore[attr-defined]
        except (AuthenticationError, QuotaExceededError):
            raise  # the user can do something about it: the other node is there
        except SyftError as error:
            raise ConnectionError(str(error)) from None
        sock = RelayedSocket(fileno=answer.fds[0])
        sock.channel_binding = answer.header
        return sock


class RelayedSocket(socket.socket):
    """A connection that the supervisor opened.

    Attributes:
        channel_binding: what ties proofs to the TLS connection behind it; None for a plain connection.
    """

    channel_binding: bytes | None = None


class SupervisedKey:
    """The identity key of the node: the supervisor signs with it, for processes that run library code alone.

    Args:
        public: the public key.
        services: the supervisor.
    """

    def __init__(self, public: bytes, services: Services) -> None:
        self.public = public
        self.fingerprint = fingerprint_of(public)
        self._services = services

    def sign(self, by_dialer: bool, parts: tuple[bytes, ...]) -> bytes:
        """Have the supervisor sign a transcript."""
        signature: bytes = self._services.call("prove", by_dialer, parts)
        return signature


class SupervisedAcquaintances(DelegationRegistry):
    """The delegations of one user's sessions; the supervisor admits the nodes that they expect.

    Args:
        worker: the worker of the session process.
        services: the supervisor.
        settings: what the supervisor says about the node.
    """

    def __init__(self, worker: Any, services: Services, settings: dict[str, Any]) -> None:
        key = SupervisedKey(bytes.fromhex(settings["peer_key"]), services)
        certificate = None if settings["certificate"] is None else bytes.fromhex(settings["certificate"])
        super().__init__(worker, SupervisedRules(services), key, certificate)
        limit = settings["max_message_bytes"]
        self._services = services
        self._peering = Peering(self, SessionRegistry(worker, OpenAuthenticator(), _GRACE, limit))

    def admit(self, circle: Delegation, peers: tuple[ObjectId, ...]) -> tuple[tuple[bytes, bytes, float], ...]:
        """Let workers in for a client from now on."""
        admitted = super().admit(circle, peers)
        self._services.call("expect", *(framing.fingerprint(token) for token, _, _ in admitted))
        return admitted

    def take(self, key: bytes, fd: int) -> None:
        """Serve a connection of another node that showed the token with this fingerprint."""
        sock = socket.socket(fileno=fd)
        admission = self._admitted.get(key)
        if admission is None or not admission.is_good:
            sock.close()
            return
        threading.Thread(target=self._peering.serve, args=(admission, sock), daemon=True).start()
