"""Doors: who is let in to a server, and as whom. Whatever somebody says of itself after that does not count."""

from __future__ import annotations

import dataclasses
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

from syft.core.labels import printable
from syft.exceptions import AuthenticationError
from syft.workers.transport.tls import is_loopback

MAX_TOKEN = 4096


@dataclasses.dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who was let in.

    Attributes:
        user: who it is; None: nobody in particular, at a server of this machine that asks for no tokens.
        role: what it may do.
    """

    user: str | None
    role: str = "user"

    def __str__(self) -> str:
        """Who it is, for logs: never a token."""
        return f"Somebody ({self.role})" if self.user is None else f"{printable(self.user)} ({self.role})"


@dataclasses.dataclass(frozen=True, slots=True)
class DelegatedPrincipal(Principal):
    """Another node that acts for a client, who introduced it here; never with more rights than a user.

    Attributes:
        via: the other node.
        circle: the client's.
    """

    via: Any = None
    circle: Any = None

    def check(self) -> None:
        """Raise AuthenticationError if the client it acts for may not stay."""
        if self.circle is None or self.circle.is_over:
            raise AuthenticationError("The client that this node acts for is gone.")
        self.circle.session.check()


class Authenticator(Protocol):
    """Decides who is let in."""

    # Whether tokens are asked for.
    tokens: bool

    def identify(self, headers: Mapping[str, str], address: str) -> Principal:
        """Return who comes, or raise AuthenticationError."""
        ...

    def check(self, guest: Principal) -> None:
        """Raise AuthenticationError if somebody who was let in may not stay."""
        ...


class OpenAuthenticator:
    """Lets everybody of this machine in, except what a browser was told to do by a page."""

    tokens = False

    def identify(self, headers: Mapping[str, str], address: str) -> Principal:
        """Return nobody in particular; refuses pages of browsers, which reach this machine too."""
        host = headers.get("host", "").rpartition(":")[0] or headers.get("host", "")
        if "origin" in headers or not is_loopback(host.strip("[]")):
            raise AuthenticationError("This server has no tokens, so it serves programs of this machine only.")
        return Principal(None)

    def check(self, guest: Principal) -> None:
        """Let everybody stay."""


def bearer(headers: Mapping[str, str]) -> str:
    """Return the token of a request."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    token = token.strip()
    if kind.lower() != "bearer" or not token or len(token) > MAX_TOKEN:
        raise AuthenticationError(
            "This node asks for a token: pass token=... to sy.connect, or --token-file FILE to a command."
        )
    return token


class ConnectionLimiter:
    """Counts who is connected, so that nobody keeps others out.

    Args:
        most: connections at once.
        each: connections of one user at once.
    """

    def __init__(self, most: int, each: int) -> None:
        self.most = most
        self.each = each
        self._inside: Counter[str | None] = Counter()
        self._lock = threading.Lock()

    def enter(self, user: str | None) -> bool:
        """Let somebody in if there is room."""
        with self._lock:
            each = self.each if user is not None else self.most
            if self._inside.total() >= self.most or self._inside[user] >= each:
                return False
            self._inside[user] += 1
            return True

    def leave(self, user: str | None) -> None:
        """Note that somebody left."""
        with self._lock:
            self._inside[user] -= 1
            if self._inside[user] <= 0:
                del self._inside[user]

    def __len__(self) -> int:
        return self._inside.total()
