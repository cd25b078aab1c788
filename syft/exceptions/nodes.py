"""Errors of the services of a node: accounts, TLS, storage, hosted models."""

from __future__ import annotations

import math

from syft.exceptions.base import SyftError


class AuthenticationError(SyftError):
    """A token or password is invalid or expired. The text never contains it."""

    code = "SY701"


class InvalidUserError(AuthenticationError, RuntimeError):
    """The user is unknown to the node, or the password is wrong."""

    code = "SY702"


class TooManyAttemptsError(AuthenticationError):
    """Too many logins failed for this user or from this address.

    Args:
        retry_after: seconds to wait before the next attempt.
    """

    code = "SY703"

    retry_after: float = 1.0

    def __init__(self, retry_after: float = 1.0) -> None:
        self.retry_after = max(retry_after, 0.0)
        wait = max(1, math.ceil(self.retry_after))
        super().__init__(f"Too many logins failed. Wait {wait} s, then try again with the right user and password.")


class AccountError(SyftError, ValueError):
    """A user can't be added, changed or renamed with these arguments."""

    code = "SY704"


class ExposureError(SyftError):
    """A node would serve other machines without TLS and tokens."""

    code = "SY705"


class CertificateError(SyftError):
    """A certificate, or its key, can't be made or used."""

    code = "SY706"


class QuotaExceededError(SyftError):
    """A user, or all users together, would hold more objects or bytes than the node allows; nothing was stored."""

    code = "SY707"


class ByteBudgetError(SyftError):
    """Bytes in flight on behalf of a user, or of all users, would pass their limit; nothing was allocated."""

    code = "SY708"


class StorageError(SyftError):
    """The store of a node can't be used, or something in it is damaged."""

    code = "SY709"


class StorageFullError(StorageError):
    """The disk or the database of a node is full; nothing was stored."""

    code = "SY710"


class ModelError(SyftError, RuntimeError):
    """A hosted model can't be stored, queried, downloaded or deleted. The text never contains its parameters."""

    code = "SY711"


class ModelNotFoundError(ModelError):
    """No model of this name is hosted for this user."""

    code = "SY712"
