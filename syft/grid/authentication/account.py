"""AccountCredential: a user's name and password."""

from __future__ import annotations

import hmac
import json
import logging
import os
from pathlib import Path
from typing import Any

from syft.exceptions import AccountError
from syft.grid.authentication.credential import AbstractCredential
from syft.grid.private_files import is_open

__all__ = ["AccountCredential"]

logger = logging.getLogger("syft.grid")
_MAX_BYTES = 16 * 2**20
_FORMAT = '{"accounts": [{"username": "alice", "password": "..."}]}'


class AccountCredential(AbstractCredential):
    """A user's name and password. Only `json()` and the attribute show the password.

    Args:
        username: the user name at the node.
        password: the password.

    Example:
        >>> AccountCredential("alice", "correct horse")
        AccountCredential('alice')
    """

    __slots__ = ("password", "username")

    def __init__(self, username: str, password: str) -> None:
        self.username = username
        self.password = password

    @staticmethod
    def parse(path: str | os.PathLike[str], file_name: str) -> list[AccountCredential]:
        """Read a JSON file of accounts: a list of names and passwords, by itself or under "accounts".

        Args:
            path: the folder.
            file_name: the file in it.

        Raises:
            AccountError: the file can't be read, or has another format.
        """
        file = Path(path) / file_name
        try:
            with file.open("rb") as opened:
                if is_open(os.fstat(opened.fileno())):
                    logger.warning("Other users may read the passwords in %s. Run: chmod 600 %s", file, file)
                contents = opened.read(_MAX_BYTES + 1)
        except OSError as error:
            raise AccountError(f"{file} can't be read ({error.strerror}). Expected format: {_FORMAT}") from None
        return [_account(file, number, row) for number, row in enumerate(_rows(file, contents), 1)]

    def json(self) -> dict[str, Any]:
        """Return user name and password, as sent at login."""
        return {"username": self.username, "password": self.password}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.username!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AccountCredential):
            return NotImplemented
        same = hmac.compare_digest(_bytes(self.password), _bytes(other.password))
        return same and self.username == other.username

    def __hash__(self) -> int:
        return hash((AccountCredential, self.username))


def _bytes(text: object) -> bytes:
    return str(text).encode("utf-8", "surrogatepass")


def _rows(file: Path, contents: bytes) -> list[Any]:
    found = None
    if len(contents) <= _MAX_BYTES:
        try:
            found = json.loads(contents)
        except (ValueError, RecursionError):
            pass
    if isinstance(found, dict):
        found = found.get("accounts")
    if not isinstance(found, list):
        raise AccountError(f"{file} is not a JSON file of accounts. Use this format: {_FORMAT}")
    return found


def _account(file: Path, number: int, row: Any) -> AccountCredential:
    fields = row if isinstance(row, dict) else {}
    user, password = fields.get("username", fields.get("user")), fields.get("password")
    if not isinstance(user, str) or not isinstance(password, str):
        raise AccountError(f"Account {number} in {file} has no user name or no password. Use this format: {_FORMAT}")
    return AccountCredential(user, password)
