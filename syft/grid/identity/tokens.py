"""Tokens: user and role at a node, signed by the node's key.

A token is a JWT signed with Ed25519. It contains user, role, node and expiry. Only the node that issued a token reads
it: there is one key and one algorithm.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from syft.config import current
from syft.exceptions import AccountError, AuthenticationError, DependencyError
from syft.grid.identity.names import user_name
from syft.grid.identity.revocations import Revocations
from syft.grid.identity.roles import check_role

try:
    import jwt
except ModuleNotFoundError as error:
    raise DependencyError("pyjwt", "node") from error

ALGORITHM = "EdDSA"
MAX_TOKEN = 4096
# Maximum length of a node's id in JSON; a token contains it twice.
MAX_NODE_ID = 640
# The maximum lifetime of a token, and of a revocation whose token has an unknown expiry.
MAX_SECONDS = 366 * 86400.0
# Seconds that revocations outlive their tokens, in case the leeway is changed or the clock is set back.
_MARGIN = 3600.0
_PRUNE_SECONDS = 60.0
# The purpose of a token, a claim in each of them; there is only one.
_SESSION = "session"
_JWT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_TOKEN_ID = re.compile(r"[0-9a-f]{32}")
_CLAIMS = ["sub", "role", "aud", "iss", "exp", "iat", "nbf", "jti", "use", "gen"]
_RENEW = "Log in again, or ask the owner of the node for a new one."


@dataclasses.dataclass(frozen=True, slots=True)
class TokenIdentity:
    """The verified contents of a token.

    Attributes:
        user: the canonical name of the user.
        role: the role, a key of ROLES.
        token_id: the id by which the token is revoked.
        expires: the expiry, in seconds since 1970.
        generation: its token generation, see `Revocations`.
    """

    user: str
    role: str
    token_id: str
    expires: float
    generation: int = 0


class Tokens:
    """Issues, verifies and revokes the tokens of one node. Thread-safe.

    Args:
        node_id: the id of the node; tokens of other nodes are refused.
        key: the node's private key.
        revocations: the store of revoked tokens.
        clock: returns seconds since 1970.
    """

    def __init__(
        self,
        node_id: str,
        key: Ed25519PrivateKey,
        revocations: Revocations,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if type(node_id) is not str or not node_id or len(json.dumps(node_id)) > MAX_NODE_ID:
            raise AccountError("A node that issues tokens needs an id, a text of 1 to about 100 characters.")
        self.node_id = node_id
        self.revocations = revocations
        self._key = key
        self._public = key.public_key()
        self._clock = clock
        self._pruning = threading.Lock()
        self._pruned = -math.inf

    def issue(self, user: str, role: str, seconds: float, *, generation: int | None = None) -> str:
        """Return a new token.

        Args:
            user: the user.
            role: the user's role.
            seconds: its lifetime.
            generation: the user's token generation at the time of authentication; None: the present one.

        Raises:
            AccountError: the role, the name or the lifetime is invalid.
        """
        if type(seconds) not in (int, float) or not 0 < seconds <= MAX_SECONDS:
            raise AccountError(f"The lifetime of a token must be above 0 and at most {MAX_SECONDS:.0f} seconds.")
        name, now = user_name(user), self._clock()
        claims = {
            "sub": name,
            "role": check_role(role),
            "aud": self.node_id,
            "iss": self.node_id,
            "iat": now,
            "nbf": now,
            "exp": now + seconds,
            "jti": secrets.token_hex(16),
            "use": _SESSION,
            "gen": self.revocations.generation(name) if generation is None else generation,
        }
        token = jwt.encode(claims, self._key, algorithm=ALGORITHM)
        if len(token) > MAX_TOKEN:
            raise AccountError("This token would be too long. Use a shorter user name.")
        return token

    def read(self, token: str) -> TokenIdentity:
        """Verify a token, and return its contents.

        Raises:
            AuthenticationError: it is invalid; the message has the reason and never the token.
        """
        claims = self._verified(token)
        identity = _identity(claims)
        # Times are compared here, because the clock of PyJWT can't be set.
        ahead = max(claims["iat"], claims["nbf"]) - self._clock()
        if ahead > current().token_leeway:
            raise AuthenticationError(
                f"This token becomes valid in {ahead:.0f} s: the clocks of its issuer and of this node differ. Correct "
                "them (compare with: date -u), then log in again."
            )
        if claims["use"] != _SESSION:
            raise AuthenticationError(f"This token is for another purpose. {_RENEW}")
        self.check(identity)
        return identity

    def check(self, identity: TokenIdentity) -> None:
        """Raise if a verified token is no longer valid, for long-lived connections.

        Raises:
            AuthenticationError: it has expired or was revoked.
        """
        late = self._clock() - identity.expires
        if late >= current().token_leeway:
            raise AuthenticationError(f"This token expired {late:.0f} s ago. {_RENEW}")
        if self.revocations.generation(identity.user) != identity.generation:
            raise AuthenticationError(f"All tokens of this user were revoked. {_RENEW}")
        if self.revocations.has(identity.token_id):
            raise AuthenticationError(f"This token was revoked. {_RENEW}")

    def revoke(self, token_id: str, expires: float | None = None) -> None:
        """Revoke one token."""
        if type(token_id) is not str or not _TOKEN_ID.fullmatch(token_id):
            raise AccountError("Invalid token id: it must have 32 hexadecimal digits.")
        self._prune()
        until = self._clock() + MAX_SECONDS if expires is None else expires
        self.revocations.add(token_id, until)

    def revoke_user(self, user: str) -> None:
        """Revoke all present tokens of a user."""
        self.revocations.advance(user_name(user))

    def _verified(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token, after verifying its signature."""
        if type(token) is not str or len(token) > MAX_TOKEN or not _JWT.fullmatch(token):
            raise AuthenticationError(f"This is not a valid token of this node. {_RENEW}")
        try:
            return jwt.decode(
                token,
                self._public,
                algorithms=[ALGORITHM],
                audience=self.node_id,
                issuer=self.node_id,
                options={
                    "require": _CLAIMS,
                    "strict_aud": True,
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        # The header is parsed before the signature is verified, so it may be anything. Not every version of PyJWT
        # converts all resulting errors to its own.
        except (jwt.PyJWTError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
            pass
        raise AuthenticationError(f"This is not a valid token of this node. {_RENEW}")

    def _prune(self) -> None:
        now = self._clock()
        with self._pruning:
            if abs(now - self._pruned) < _PRUNE_SECONDS:
                return
            self._pruned = now
        self.revocations.prune(now - _MARGIN)


def _identity(claims: Mapping[str, Any]) -> TokenIdentity:
    """Return the identity in claims, each of which must have exactly its type."""
    user, role, token_id, generation = (claims[name] for name in ("sub", "role", "jti", "gen"))
    times = [claims[name] for name in ("exp", "iat", "nbf")]
    try:
        is_valid = (
            all(type(value) is str for value in (user, role, token_id, claims["use"]))
            and type(generation) is int
            and all(type(value) in (int, float) and math.isfinite(value) for value in times)
            and _TOKEN_ID.fullmatch(token_id)
        )
        if is_valid and user_name(user) == user:
            return TokenIdentity(user, check_role(role), token_id, float(times[0]), generation)
    except (AccountError, OverflowError):
        pass
    raise AuthenticationError(f"This token has invalid contents. {_RENEW}")
