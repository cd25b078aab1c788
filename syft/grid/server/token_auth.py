"""TokenAuthenticator: accepts clients with a token of the node."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from syft.exceptions import AuthenticationError
from syft.grid.identity import NodeIdentity
from syft.grid.identity.tokens import TokenIdentity
from syft.grid.server.auth import Authenticator, Principal, bearer


@dataclasses.dataclass(frozen=True, slots=True)
class VerifiedToken(Principal):
    """A client with a token."""

    identity: TokenIdentity | None = None


class TokenAuthenticator(Authenticator):
    """Accepts clients with a token of the node."""

    tokens = True

    def __init__(self, identity: NodeIdentity) -> None:
        self._identity = identity

    def identify(self, headers: Mapping[str, str], address: str) -> VerifiedToken:
        """Return the client of a request, by its token."""
        found = self._identity.tokens.read(bearer(headers))
        return VerifiedToken(found.user, found.role, identity=found)

    def check(self, principal: Principal) -> None:
        """Raise if a token has expired or was revoked since it was checked."""
        if not isinstance(principal, VerifiedToken) or principal.identity is None:
            raise AuthenticationError("This node requires a token.")
        self._identity.tokens.check(principal.identity)
