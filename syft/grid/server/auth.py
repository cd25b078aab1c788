"""Authenticator: the authentication of clients. Later statements of a client about its identity do not count."""

from __future__ import annotations

import dataclasses
import secrets
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

from syft.core.labels import printable
from syft.exceptions import AuthenticationError
from syft.workers.transport.program_key import HEADER, name_of
from syft.workers.transport.tls import is_loopback

MAX_TOKEN = 4096


@dataclasses.dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated client.

    Attributes:
        user: its name; None: anonymous, at a server of this machine without tokens.
        role: its role.
        program: the name of an anonymous client's process, as far as it is known; its connections have one user.
    """

    user: str | None
    role: str = "user"
    program: str = ""

    @property
    def session_name(self) -> str:
        """The name of its sessions."""
        return f"anonymous-{self.program or secrets.token_hex(16)}" if self.user is None else self.user

    def __str__(self) -> str:
        """The name for logs: never a token."""
        return f"Somebody ({self.role})" if self.user is None else f"{printable(self.user)} ({self.role})"


@dataclasses.dataclass(frozen=True, slots=True)
class DelegatedPrincipal(Principal):
    """Another node that acts for the client that introduced it; never with more rights than a user.

    Attributes:
        via: the id of the other node.
        delegation: the delegation of the client.
    """

    via: Any = None
    delegation: Any = None

    def check(self) -> None:
        """Raise AuthenticationError if the client that it acts for may not stay."""
        if self.delegation is None or self.delegation.is_over:
            raise AuthenticationError("The client that this node acts for is gone.")
        self.delegation.session.check()


class Authenticator:
    """Authenticates clients: without tokens, all programs of this machine, but no pages in browsers."""

    # Whether tokens are required.
    tokens = False

    def identify(self, headers: Mapping[str, str], address: str) -> Principal:
        """Return the client of a request, or raise AuthenticationError."""
        host = headers.get("host", "").rpartition(":")[0] or headers.get("host", "")
        if "origin" in headers or not is_loopback(host.strip("[]")):
            raise AuthenticationError("This server has no tokens, so it serves programs of this machine only.")
        return Principal(None, program=name_of(headers.get(HEADER.lower(), "")))

    def check(self, principal: Principal) -> None:
        """Raise AuthenticationError if an authenticated client may not stay."""


def bearer(headers: Mapping[str, str]) -> str:
    """Return the token of a request."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    token = token.strip()
    if kind.lower() != "bearer" or not token or len(token) > MAX_TOKEN:
        raise AuthenticationError(
            "This node requires a token: pass token=... to sy.connect, or --token-file FILE to a command."
        )
    return token


class ConnectionLimiter:
    """Limits concurrent connections, so that no user can block others."""

    def __init__(self, most: int, each: int) -> None:
        self.most = most
        self.each = each
        self._inside: Counter[str | None] = Counter()
        self._lock = threading.Lock()

    def enter(self, user: str | None) -> bool:
        """Add a connection if there is room; returns whether there was."""
        with self._lock:
            each = self.each if user is not None else self.most
            if self._inside.total() >= self.most or self._inside[user] >= each:
                return False
            self._inside[user] += 1
            return True

    def leave(self, user: str | None) -> None:
        """Remove a connection."""
        with self._lock:
            self._inside[user] -= 1
            if self._inside[user] <= 0:
                del self._inside[user]

    def __len__(self) -> int:
        return self._inside.total()
