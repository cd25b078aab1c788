"""Delegations: a client lets workers behind servers connect to each other, within its own sessions.

A client introduces two workers by requesting secrets from the one that is connected to (`admit`) and passing them to
the one that connects (`meet`). Everything after that belongs to the delegation of that session: no other client can
use it, interfere with it or outlive it. A worker that shows such a secret acts as that worker for that client,
and as nothing else.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import math
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ObjectId, is_id
from syft.exceptions import AuthenticationError, CommandNotAllowedError, SyftError
from syft.workers.delegation.key_proofs import PeerKey, Prover, Signer
from syft.workers.delegation.peer import DelegatedNode, OutboundPolicy
from syft.workers.execution.execute import WORKER_COMMANDS
from syft.workers.execution.session import Session
from syft.workers.transport import handshake
from syft.workers.transport.handshake import TOKEN_BYTES
from syft.workers.transport.stream import InlineStream

if TYPE_CHECKING:
    from syft.grid.server.sessions import ResumableSession
    from syft.workers.base import BaseWorker

logger = logging.getLogger("syft.workers")
ADMIT, MEET, KEY = "syft.peers_admit", "syft.peers_meet", "syft.peers_key"
# Seconds that a secret is valid.
LIFETIME = 12 * 3600.0
# Workers of one delegation; delegations, and connections of other workers, of one user at a time.
MAX_PEERS = 128
MAX_DELEGATIONS = 64
MAX_CONNECTIONS = 512
_MAX_TIMEOUT = 86400.0
_NAME_DIGITS = 32


class Delegation:
    """The workers that one session of a client introduced to a worker; it ends with the session."""

    def __init__(self, session: Session, name: str) -> None:
        self.session = session
        self.name = name
        # The workers that this worker may connect to for the client.
        self.peers: dict[ObjectId, DelegatedNode] = {}
        # Seconds that the client waits for the workers of a computation.
        self.timeout = math.inf
        self.is_over = False
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._endings: list[Callable[[], None]] = []
        # Sessions of other workers here for the client -> the function that ends them.
        self._visits: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()
        self._own: InlineStream | None = None
        self._lock = threading.Lock()

    @property
    def user(self) -> object:
        """The client, as authenticated by the worker."""
        return self.session.client_id

    def __repr__(self) -> str:
        return f"<Delegation of {self.user!r}, {len(self.peers)} peers>"

    @property
    def connections(self) -> int:
        """The number of open connections of other workers."""
        with self._lock:
            return sum(sock.fileno() >= 0 for sock in self._sockets)

    def hold(self, sock: socket.socket) -> None:
        """Close a connection when the delegation ends."""
        with self._lock:
            if self.is_over:
                raise ConnectionError("its client is gone")
            self._sockets.add(sock)

    def at_end(self, ending: Callable[[], None]) -> None:
        """Call a function when the delegation ends; at once, if it has ended."""
        with self._lock:
            if not self.is_over:
                self._endings.append(ending)
                return
        ending()

    def end_with_me(self, visit: ResumableSession, end: Callable[[Any], None]) -> None:
        """End the session of another worker with the delegation, unless it ends before."""
        with self._lock:
            if not self.is_over:
                self._visits[visit] = end
                return
        end(visit)

    def own_stream(self) -> InlineStream:
        """Return the stream of the worker to itself, for requests of the client."""
        with self._lock:
            if self._own is None:
                worker = self.session.worker
                session = worker.open_session(self.user)
                session.via, session.delegation = worker.id, self
                self._own = InlineStream(worker, worker, session)
            return self._own

    def close(self) -> None:
        """End all that belongs to the delegation; in a thread, since informing other workers may take a while."""
        with self._lock:
            if self.is_over:
                return
            self.is_over = True
            sockets, endings, own = list(self._sockets), self._endings, self._own
            endings += [functools.partial(end, visit) for visit, end in self._visits.items()]
            self._endings = []
        for sock in sockets:
            with contextlib.suppress(OSError):  # the peer closed it first
                sock.shutdown(socket.SHUT_RDWR)  # ends pending reads and writes; the owner of the socket closes it
        if own is not None:
            own.close()
        if endings or self.peers:
            threading.Thread(target=self._end, args=(endings,), name="syft delegation", daemon=True).start()

    def _end(self, endings: list[Callable[[], None]]) -> None:
        worker = self.session.worker
        for peer in self.peers.values():
            stream = worker._streams.pop(peer.stream_key, None)
            if stream is not None:
                endings.append(stream.close)
        for ending in endings:
            try:
                ending()
            except Exception:
                logger.exception("A part of an ended delegation could not be closed")


@dataclasses.dataclass(frozen=True, slots=True)
class PeerCredential:
    """The permission of a worker to connect for a client; never printed with its secrets.

    Attributes:
        delegation: the delegation of the client.
        peer: the id of the worker.
        key: the fingerprint of its token.
        proof: the secret that is shown in return.
        expires: the end of its validity, on the monotonic clock.
    """

    delegation: Delegation
    peer: ObjectId
    key: bytes = dataclasses.field(repr=False)
    proof: bytes = dataclasses.field(repr=False)
    expires: float

    @property
    def is_good(self) -> bool:
        """Whether it is still valid."""
        return not self.delegation.is_over and time.monotonic() < self.expires


class DelegationRegistry:
    """The delegations of all clients of one worker, behind a server.

    Without an identity key the worker gets one that lasts as long as this process.
    """

    def __init__(
        self, worker: BaseWorker, rules: OutboundPolicy, key: Signer | None = None, certificate: bytes | None = None
    ) -> None:
        self.worker = worker
        self.rules = rules
        # Proves the identity of this worker to others.
        self.prover = Prover(worker.id, key or PeerKey(), certificate)
        self._admitted: dict[bytes, PeerCredential] = {}
        self._by_peer: dict[tuple[Delegation, ObjectId], bytes] = {}
        self._delegations: list[Delegation] = []
        self._lock = threading.Lock()

    def delegation_of(self, session: Session, name: object) -> Delegation:
        """Return the delegation of a client's session, making it when first needed."""
        if type(name) is not str or len(name) != _NAME_DIGITS or not set(name) <= set("0123456789abcdef"):
            raise SyftError(f"The name of a delegation has {_NAME_DIGITS} hexadecimal digits.")
        if session.via is not None:
            raise SyftError("Only a client itself introduces workers to each other, not a worker that acts for it.")
        with self._lock:
            if session not in self.worker._sessions:  # a session without a connection
                raise CommandNotAllowedError("Introducing workers")
            if session.delegation is None or session.delegation.is_over:
                if sum(delegation.user == session.client_id for delegation in self._delegations) >= MAX_DELEGATIONS:
                    raise SyftError(f"This user has {MAX_DELEGATIONS} sessions already that introduced workers.")
                session.delegation = Delegation(session, name)
                self._delegations.append(session.delegation)
                session.delegation.at_end(lambda delegation=session.delegation: self._forget(delegation))
            if session.delegation.name != name:
                raise SyftError("A session has one delegation, and this one has another name.")
            delegation: Delegation = session.delegation
        return delegation

    def admit(self, delegation: Delegation, peers: tuple[ObjectId, ...]) -> tuple[tuple[bytes, bytes, float], ...]:
        """Accept workers for a client from now on; returns token, proof and seconds for each. Earlier ones end."""
        return tuple([self._admit(delegation, peer) for peer in peers])

    def _admit(self, delegation: Delegation, peer: ObjectId) -> tuple[bytes, bytes, float]:
        token, proof = os.urandom(TOKEN_BYTES), os.urandom(TOKEN_BYTES)
        key = handshake.fingerprint(token)
        with self._lock:
            if delegation.is_over or delegation not in self._delegations:
                raise SyftError("This session is over.")
            earlier = self._by_peer.pop((delegation, peer), None)
            if earlier is not None:
                del self._admitted[earlier]
            if sum(owner is delegation for owner, _ in self._by_peer) >= MAX_PEERS:
                raise SyftError(f"A client introduces up to {MAX_PEERS} workers to another one.")
            self._admitted[key] = PeerCredential(delegation, peer, key, proof, time.monotonic() + LIFETIME)
            self._by_peer[delegation, peer] = key
        return token, proof, LIFETIME

    def find(self, token: bytes) -> PeerCredential:
        """Return the permission of a token.

        Raises:
            AuthenticationError: no client introduced its worker, or the permission has expired.
        """
        with self._lock:
            admission = self._admitted.get(handshake.fingerprint(token))
        if admission is None or not admission.is_good:
            raise AuthenticationError("No client has introduced this worker here, or that was too long ago.")
        return admission

    def has_room(self, user: object) -> bool:
        """Return whether another worker may connect for a user."""
        with self._lock:
            delegations = [delegation for delegation in self._delegations if delegation.user == user]
        return sum(delegation.connections for delegation in delegations) < MAX_CONNECTIONS

    def sweep(self, may_stay: Callable[[Session], bool]) -> None:
        """End the delegations of clients that may not stay."""
        with self._lock:
            delegations = list(self._delegations)
        for delegation in delegations:
            if delegation.session not in self.worker._sessions or not may_stay(delegation.session):
                delegation.close()

    def _forget(self, delegation: Delegation) -> None:
        with self._lock:
            self._delegations = [other for other in self._delegations if other is not delegation]
            for owner, peer in [key for key in self._by_peer if key[0] is delegation]:
                del self._admitted[self._by_peer.pop((owner, peer))]

    def __len__(self) -> int:
        return len(self._admitted)


# --- what a client asks for -----------------------------------------------------------------------------------


def _of(worker: BaseWorker) -> DelegationRegistry:
    found: DelegationRegistry | None = getattr(worker, "delegations", None)
    if found is None:
        raise CommandNotAllowedError("Introducing workers")
    return found


def _admit(worker: Any, session: Session, name: Any, *peers: Any) -> tuple[tuple[bytes, bytes, float], ...]:
    """Accept other workers for a client."""
    if not peers or len(set(peers)) != len(peers) or not all(is_id(peer) and peer != worker.id for peer in peers):
        raise SyftError("Other workers are introduced by their ids, each once.")
    delegations = _of(worker)
    return delegations.admit(delegations.delegation_of(session, name), peers)


def _meet(worker: Any, session: Session, name: Any, timeout: Any, *rows: Any) -> None:
    """Register the addresses of other workers for a client: id, address, token and proof of each."""
    delegations = _of(worker)
    if type(timeout) not in (int, float) or not 0 < timeout <= _MAX_TIMEOUT:
        raise SyftError("A client waits for some seconds, for a day at most.")
    if len(rows) > MAX_PEERS:
        raise SyftError(f"A client introduces up to {MAX_PEERS} workers to another one.")
    found = [(row[0], delegations.rules.place(row[1]), row[2], row[3]) for row in map(_check_row, rows)]
    delegation = delegations.delegation_of(session, name)
    delegation.timeout = float(timeout)
    for peer, where, token, proof in found:
        known = delegation.peers.get(peer)
        if known is None:
            if len(delegation.peers) >= MAX_PEERS:
                raise SyftError(f"A client introduces up to {MAX_PEERS} workers to another one.")
            known = delegation.peers[peer] = DelegatedNode(peer, worker, delegation)
        known.move_to(where, token, proof)


def _check_row(row: object) -> tuple[Any, ...]:
    if type(row) is not tuple or len(row) != 4 or not is_id(row[0]) or type(row[1]) is not str:
        raise SyftError("A worker is introduced by its id, its address, a token and a proof.")
    if not all(type(secret) is bytes and len(secret) == TOKEN_BYTES for secret in row[2:]):
        raise SyftError("A worker is introduced by its id, its address, a token and a proof.")
    return row


def _key(worker: BaseWorker, session: Session) -> str:
    """Return the fingerprint of the key by which this worker proves its identity."""
    return _of(worker).prover.key.fingerprint


WORKER_COMMANDS.update({ADMIT: _admit, MEET: _meet, KEY: _key})
