"""The registry of a gateway: nodes with the expiry of their registration and their searchable contents.

The user who first registered a node is stored on disk: only that user may register the name again, so nobody can
impersonate an absent node.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from syft.exceptions import NotPermittedError, SyftError
from syft.grid.private_files import replace_file

_choose = random.SystemRandom()


class UnknownNodeError(SyftError):
    """A node is not registered, or its registration expired."""

    http_status = 404


class TakenError(SyftError):
    """The name belongs to another user, or the registry is full."""

    http_status = 409


@dataclasses.dataclass(slots=True)
class RegisteredNode:
    """A registered node.

    Attributes:
        id: its name.
        address: its address.
        user: the user who registered it.
        lease: the hash of the lease that its heartbeats contain.
        until: the expiry, on the monotonic clock.
        tags: the distinct tag sets of its published objects.
        models: the models that it hosts for others, and whether each is encrypted.
    """

    id: str
    address: str
    user: str | None
    lease: bytes = dataclasses.field(repr=False)
    until: float
    tags: frozenset[frozenset[str]] = frozenset()
    models: frozenset[tuple[str, bool]] = frozenset()


class Registry:
    """The nodes registered at a gateway.

    Args:
        lifetime: seconds until a registration expires without a heartbeat.
        most: the maximum number of nodes.
        each: the maximum number of nodes of one user.
        owners: the file of the users who registered nodes; None: in memory only.
        clock: returns seconds.
    """

    def __init__(
        self,
        lifetime: float = 30.0,
        most: int = 1024,
        each: int = 256,
        owners: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lifetime = lifetime
        self.most = most
        self.each = each
        self._file = owners
        self._clock = clock
        self._members: dict[str, RegisteredNode] = {}
        self._owners: dict[str, str | None] = _read(owners)
        self._lock = threading.Lock()

    # --- nodes ----------------------------------------------------------------------------------------------

    def check(self, node_id: str, user: str | None) -> None:
        """Raise if a user may not register a node with this name."""
        with self._lock:
            self._check(node_id, user)

    def _check(self, node_id: str, user: str | None) -> None:
        if self._owners.get(node_id, user) != user:
            raise TakenError(f"Node {node_id!r} was registered by another user. Choose another name.")
        if node_id not in self._owners:
            own = sum(owner == user for owner in self._owners.values())
            if len(self._owners) >= self.most or own >= self.each:
                raise TakenError("The registry of this gateway is full. Ask the owner of the gateway to remove nodes.")

    def add(self, node_id: str, address: str, user: str | None) -> str:
        """Register a node that has proved its address; returns its lease."""
        lease = secrets.token_hex(32)
        with self._lock:
            self._check(node_id, user)
            if node_id not in self._owners:
                self._write({**self._owners, node_id: user})
            self._members[node_id] = RegisteredNode(node_id, address, user, _hash(lease), self._clock() + self.lifetime)
        return lease

    def renew(self, node_id: str, lease: str, user: str | None) -> RegisteredNode:
        """Renew the registration of a node."""
        with self._lock:
            member = self._leased(node_id, lease, user)
            member.until = self._clock() + self.lifetime
            return member

    def leave(self, node_id: str, lease: str, user: str | None) -> None:
        """Deregister a node; its name stays reserved for its user."""
        with self._lock:
            del self._members[self._leased(node_id, lease, user).id]

    def remove(self, node_id: str) -> None:
        """Remove a node, and release its name."""
        with self._lock:
            if node_id not in self._owners:
                raise UnknownNodeError(f"Node {node_id!r} is not registered at this gateway.")
            self._members.pop(node_id, None)
            self._write({key: user for key, user in self._owners.items() if key != node_id})

    def _leased(self, node_id: str, lease: str, user: str | None) -> RegisteredNode:
        member = self._members.get(node_id)
        if member is None or member.until < self._clock():
            raise UnknownNodeError(
                f"Node {node_id!r} is not registered, or its registration expired. Register it again."
            )
        if member.user != user or not hmac.compare_digest(member.lease, _hash(lease)):
            raise NotPermittedError(f"Node {node_id!r} was registered by another user.")
        return member

    # --- search ---------------------------------------------------------------------------------------------

    def alive(self) -> list[RegisteredNode]:
        """Return the registered nodes."""
        with self._lock:
            now = self._clock()
            for node_id in [key for key, member in self._members.items() if member.until < now]:
                del self._members[node_id]
            return list(self._members.values())

    def search(self, words: Iterable[str]) -> list[RegisteredNode]:
        """Return the nodes with an object that has all of these tags."""
        wanted = frozenset(words)
        if not wanted:
            return self.alive()
        return [member for member in self.alive() if any(wanted <= tags for tags in member.tags)]

    def hosts(self, model: str, mpc: bool) -> list[RegisteredNode]:
        """Return the nodes that host a model for others."""
        return [member for member in self.alive() if (model, mpc) in member.models]

    def choose(self, count: int, least: int) -> list[RegisteredNode]:
        """Return nodes to host a model: those with the fewest models, at random among equals."""
        alive = self.alive()
        if len(alive) < least:
            raise TakenError(f"This needs {least} nodes; {len(alive)} are registered at this gateway.")
        _choose.shuffle(alive)
        return sorted(alive, key=lambda member: len(member.models))[:count]

    def _write(self, owners: dict[str, str | None]) -> None:
        if self._file is not None:
            replace_file(self._file, json.dumps(owners, ensure_ascii=False, indent=1).encode())
        self._owners = owners


def _hash(lease: str) -> bytes:
    return hashlib.sha256(lease.encode()).digest()


def _read(file: Path | None) -> dict[str, str | None]:
    if file is None or not file.exists():
        return {}
    found = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise SyftError(f"{file.name} is not a registry file of a gateway.")
    return found
