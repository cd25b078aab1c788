"""Users: names, roles and passwords of the users of a node.

Passwords are stored as argon2id hashes. Neither the error nor the duration of a failed login reveals whether the user
exists.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator

from syft.exceptions import AccountError, AuthenticationError, DependencyError, TooManyAttemptsError
from syft.grid.identity.database import Database
from syft.grid.identity.names import user_name
from syft.grid.identity.roles import USER, check_role
from syft.grid.identity.throttle import Throttle
from syft.grid.identity.tokens import Tokens

try:
    import argon2
except ModuleNotFoundError as error:
    raise DependencyError("argon2-cffi", "node") from error

MIN_PASSWORD, MAX_PASSWORD = 8, 1024
LOGIN_SECONDS = 12 * 3600.0
# Limits concurrent hashes, which take 64 MiB each; requests that wait longer are rejected.
_MAX_HASHES = max(1, min(os.cpu_count() or 1, 4))
_HASH_TIMEOUT = 10.0
_REFUSED = "Wrong user or password. Try again, or ask the owner of the node for a new password."


@dataclasses.dataclass(frozen=True, slots=True)
class UserAccount:
    """A user, without the password."""

    user: str
    role: str
    added: float = 0.0


class Users:
    """The users of a node. Thread-safe; a login takes about 0.1 s of CPU time.

    Args:
        database: the database of the node's identity.
        tokens: issues tokens at login, and revokes those of changed and removed users.
        hasher: the password hasher; older hashes are renewed at the next login.
        throttle: the rate limits of failed logins.
        clock: returns seconds since 1970.
    """

    def __init__(
        self,
        database: Database,
        tokens: Tokens,
        hasher: argon2.PasswordHasher | None = None,
        throttle: Throttle | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._tokens = tokens
        self._hasher = hasher or argon2.PasswordHasher.from_parameters(argon2.profiles.RFC_9106_LOW_MEMORY)
        self._throttle = Throttle() if throttle is None else throttle
        self._clock = clock
        self._hashing = threading.BoundedSemaphore(_MAX_HASHES)
        # Compared for unknown users, so that the duration is the same.
        self._dummy_hash = self._hasher.hash(os.urandom(16).hex())

    def __contains__(self, user: object) -> bool:
        try:
            name = user_name(user)
        except AccountError:
            return False
        return bool(self._database.rows("SELECT 1 FROM users WHERE user = ?", name))

    def __len__(self) -> int:
        return int(self._database.rows("SELECT count(*) FROM users")[0][0])

    def add(self, user: str, password: str, role: str = USER) -> str:
        """Add a user, and return the canonical name.

        Raises:
            AccountError: the name exists, or name, password or role is invalid.
        """
        name, role = user_name(user), check_role(role)
        hashed = self._hash(name, password)
        row = (name, role, hashed, self._clock())
        if not self._database.execute("INSERT OR IGNORE INTO users VALUES (?, ?, ?, ?)", *row):
            raise AccountError(f"User {name!r} already exists. Choose another name, or change the password.")
        return name

    def verify(self, user: str, password: str, address: str = "") -> UserAccount:
        """Verify a password, and return the account.

        Raises:
            AuthenticationError: the user or the password is wrong.
            TooManyAttemptsError: too many attempts failed; the error contains the seconds to wait.
        """
        account, _ = self._verify(user, password, address)
        return account

    def login(self, user: str, password: str, address: str = "", seconds: float = LOGIN_SECONDS) -> str:
        """Verify a password, and return a new token."""
        account, generation = self._verify(user, password, address)
        return self._tokens.issue(account.user, account.role, seconds, generation=generation)

    def change(self, user: str, password: str) -> None:
        """Change a user's password; the user's tokens are revoked."""
        name = user_name(user)
        self._update(name, "UPDATE users SET password = ? WHERE user = ?", self._hash(name, password), name)

    def change_role(self, user: str, role: str) -> None:
        """Change a user's role; the user's tokens are revoked."""
        name = user_name(user)
        self._update(name, "UPDATE users SET role = ? WHERE user = ?", check_role(role), name)

    def remove(self, user: str) -> None:
        """Remove a user; the user's tokens are revoked."""
        name = user_name(user)
        self._update(name, "DELETE FROM users WHERE user = ?", name)

    def list(self) -> tuple[UserAccount, ...]:
        """Return all accounts, by name."""
        return tuple(
            UserAccount(*row) for row in self._database.rows("SELECT user, role, added FROM users ORDER BY user")
        )

    def _update(self, name: str, statement: str, *values: str) -> None:
        with self._database.transaction():
            if not self._database.execute(statement, *values):
                raise AccountError(f"There is no user {name!r}. Add the user first.")
            self._tokens.revoke_user(name)

    def _verify(self, user: str, password: str, address: str) -> tuple[UserAccount, int]:
        try:
            name = user_name(user)
        except AccountError:
            name = ""  # unknown: takes equally long, and counts for the address
        attempt = self._throttle.enter(name, address)
        # Read before the password is compared, so that a user removed meanwhile gets an invalid token.
        generation = self._tokens.revocations.generation(name)
        found = self._database.rows("SELECT user, role, added, password FROM users WHERE user = ?", name)
        hashed = found[0][3] if found else self._dummy_hash
        try:
            matches = self._matches(hashed, password)
        except TooManyAttemptsError:  # the password was not compared
            self._throttle.withdraw(attempt)
            raise
        if not matches or not found:
            raise AuthenticationError(_REFUSED)
        self._throttle.succeed(attempt)
        if self._hasher.check_needs_rehash(hashed):
            renewed = self._hash(name, password, check=False)
            self._database.execute(
                "UPDATE users SET password = ? WHERE user = ? AND password = ?", renewed, name, hashed
            )
        return UserAccount(*found[0][:3]), generation

    def _matches(self, hashed: str, password: str) -> bool:
        normal = _normal(password)
        with self._hash_slot():
            try:
                self._hasher.verify(hashed, normal or "")
            except argon2.exceptions.VerificationError:
                return False
        return normal is not None

    def _hash(self, name: str, password: str, check: bool = True) -> str:
        normal = _normal(password)
        if normal is None or (check and (len(normal) < MIN_PASSWORD or normal.casefold() == name)):
            raise AccountError(
                f"A password must have {MIN_PASSWORD} to {MAX_PASSWORD} characters and differ from the user name. "
                "Choose another one."
            )
        with self._hash_slot():
            return self._hasher.hash(normal)

    @contextlib.contextmanager
    def _hash_slot(self) -> Iterator[None]:
        """Limit the number of concurrent hashes, which bounds their memory."""
        if not self._hashing.acquire(timeout=_HASH_TIMEOUT):
            raise TooManyAttemptsError(_HASH_TIMEOUT)
        try:
            yield
        finally:
            self._hashing.release()


def _normal(password: object) -> str | None:
    """Return the normalized password, independent of how a keyboard composes it; None if it is invalid."""
    if not isinstance(password, str) or not 0 < len(password) <= MAX_PASSWORD:
        return None
    normal = unicodedata.normalize("NFC", password)
    try:
        normal.encode("utf-8")
    except UnicodeEncodeError:
        return None
    return normal
