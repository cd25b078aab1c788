"""Tokens: who somebody is at a node, signed by the node's own key.

A token is a JWT signed with Ed25519. It names user, role, node and expiry. Only the node that made a token reads it:
there is no second key, and no second algorithm.
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
from syft.grid.identity.roles import Capability, check_role, may

try:
    import jwt
except ModuleNotFoundError as error:
    raise DependencyError("pyjwt", "resyft[node]") from error

__all__ = ["TokenIdentity", "Tokens"]

ALGORITHM = "EdDSA"
MAX_TOKEN = 4096
# Of the id of a node, as it is written in a token, twice.
MAX_NODE_ID = 640
# The longest life of a token, and how long a revocation is remembered if nobody says when its token expires.
MAX_SECONDS = 366 * 86400.0
# Seconds for which revocations outlive their tokens: the leeway may be changed, and a clock be set back.
_MARGIN = 3600.0
_PRUNING = 60.0
# What tokens are for, which each of them says; there is no other purpose yet.
_SESSION = "session"
_FORM = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_TOKEN_ID = re.compile(r"[0-9a-f]{32}")
_CLAIMS = ["sub", "role", "aud", "iss", "exp", "iat", "nbf", "jti", "use", "gen"]
_RENEW = "Log in again, or ask the owner of the node for a new one."


@dataclasses.dataclass(frozen=True, slots=True)
class TokenIdentity:
    """Who somebody is, as a token says that was verified.

    Attributes:
        user: the user's name, in its one form.
        role: a name in the table of roles.
        token_id: what the token is revoked by.
        expires: when it ends, in seconds since 1970.
        generation: which of the user's generations of tokens it belongs to.
    """

    user: str
    role: str
    token_id: str
    expires: float
    generation: int = 0

    def may(self, capability: Capability) -> bool:
        """Say whether the role may do something."""
        return may(self.role, capability)


class Tokens:
    """Makes, reads and revokes the tokens of one node. Any thread may call it.

    Args:
        node_id: the node; tokens of another one are refused.
        key: the node's own key.
        revocations: what remembers the tokens that are not good any more.
        clock: returns seconds since 1970.
        leeway: by how many seconds clocks may differ; None: what the configuration says.
    """

    def __init__(
        self,
        node_id: str,
        key: Ed25519PrivateKey,
        revocations: Revocations,
        clock: Callable[[], float] = time.time,
        leeway: float | None = None,
    ) -> None:
        if type(node_id) is not str or not node_id or len(json.dumps(node_id)) > MAX_NODE_ID:
            raise AccountError("A node that issues tokens has an id: a text of 1 to about 100 characters.")
        self.node_id = node_id
        self.revocations = revocations
        self._key = key
        self._public = key.public_key()
        self._clock = clock
        self._leeway = leeway
        self._pruning = threading.Lock()
        self._pruned = -math.inf

    @property
    def leeway(self) -> float:
        """By how many seconds clocks may differ."""
        return current().token_leeway if self._leeway is None else self._leeway

    def issue(self, user: str, role: str, seconds: float, *, generation: int | None = None) -> str:
        """Return a new token.

        Args:
            user: whom it is for.
            role: what they may do.
            seconds: how long it is good.
            generation: that of the user's tokens when its right to one was looked at; None: the one of now.

        Raises:
            AccountError: there is no such role, or the name or the time is no good.
        """
        return self._sign(_SESSION, user, role, seconds, generation)

    def read(self, token: str) -> TokenIdentity:
        """Return whose token this is.

        Raises:
            AuthenticationError: it is not good; the text says why, and never holds the token.
        """
        identity = self._read(token, _SESSION)
        self.check(identity)
        return identity

    def check(self, identity: TokenIdentity) -> None:
        """Raise if a token that was good is so no longer: for connections that stay open.

        Raises:
            AuthenticationError: it has expired or was revoked.
        """
        self._check_expiry(identity.expires)
        self._check_generation(identity)
        if self.revocations.has(identity.token_id):
            raise AuthenticationError(f"This token was revoked. {_RENEW}")

    def revoke(self, token_id: str, expires: float | None = None) -> None:
        """Refuse one token from now on.

        Args:
            token_id: as its Identity says.
            expires: until when it has to be remembered; None: as long as a token can last.
        """
        if type(token_id) is not str or not _TOKEN_ID.fullmatch(token_id):
            raise AccountError("This is no id of a token: it has 32 hexadecimal digits, as its Identity says.")
        self._prune()
        until = self._clock() + MAX_SECONDS if expires is None else expires
        self.revocations.add(token_id, until)

    def revoke_user(self, user: str) -> None:
        """Refuse all tokens that a user has so far."""
        self.revocations.advance(user_name(user))

    def _sign(self, use: str, user: str, role: str, seconds: float, generation: int | None) -> str:
        if type(seconds) not in (int, float) or not 0 < seconds <= MAX_SECONDS:
            raise AccountError(f"A token is good for more than 0 and at most {MAX_SECONDS:.0f} seconds.")
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
            "use": use,
            "gen": self.revocations.generation(name) if generation is None else generation,
        }
        token = jwt.encode(claims, self._key, algorithm=ALGORITHM)
        if len(token) > MAX_TOKEN:
            raise AccountError("This token would be too long. Use a shorter name.")
        return token

    def _read(self, token: str, use: str) -> TokenIdentity:
        claims = self._verified(token)
        identity = _identity(claims)
        # Times are compared here and not by the package, whose clock can't be set.
        for name in ("iat", "nbf"):
            self._check_start(claims[name])
        self._check_expiry(identity.expires)
        if claims["use"] != use:
            raise AuthenticationError(f"This token is for another purpose. {_RENEW}")
        return identity

    def _verified(self, token: str) -> Mapping[str, Any]:
        """Return what a token says, after its signature was verified."""
        if type(token) is not str or len(token) > MAX_TOKEN or not _FORM.fullmatch(token):
            raise AuthenticationError(f"This is not a token of this node. {_RENEW}")
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
        # The first part is read before the signature is verified, so it may be anything that its length allows; not
        # every version of the package turns all of it into errors of its own.
        except (jwt.PyJWTError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
            pass
        raise AuthenticationError(f"This is not a token of this node, or it was changed. {_RENEW}")

    def _check_start(self, start: float) -> None:
        ahead = start - self._clock()
        if ahead > self.leeway:
            raise AuthenticationError(
                f"This token is good only in {ahead:.0f} s: the clock of the machine that made it and the clock of "
                "this node differ. Set them both right (compare them with: date -u), then log in again."
            )

    def _check_expiry(self, expires: float) -> None:
        late = self._clock() - expires
        if late >= self.leeway:
            raise AuthenticationError(f"This token expired {late:.0f} s ago. {_RENEW}")

    def _check_generation(self, identity: TokenIdentity) -> None:
        if self.revocations.generation(identity.user) != identity.generation:
            raise AuthenticationError(f"All tokens of this user were revoked. {_RENEW}")

    def _prune(self) -> None:
        now = self._clock()
        with self._pruning:
            if abs(now - self._pruned) < _PRUNING:
                return
            self._pruned = now
        self.revocations.prune(now - _MARGIN)


def _identity(claims: Mapping[str, Any]) -> TokenIdentity:
    """Return who is meant by claims, each of which must be of its very type."""
    user, role, token_id, generation = (claims[name] for name in ("sub", "role", "jti", "gen"))
    times = [claims[name] for name in ("exp", "iat", "nbf")]
    try:
        fine = (
            all(type(value) is str for value in (user, role, token_id, claims["use"]))
            and type(generation) is int
            and all(type(value) in (int, float) and math.isfinite(value) for value in times)
            and _TOKEN_ID.fullmatch(token_id)
        )
        if fine and user_name(user) == user:
            return TokenIdentity(user, check_role(role), token_id, float(times[0]), generation)
    except (AccountError, OverflowError):
        pass
    raise AuthenticationError(f"This token says something that no token of this node says. {_RENEW}")
