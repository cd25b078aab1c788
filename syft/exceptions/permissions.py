"""Errors of releases that an owner's policy or privacy budget forbids."""

from __future__ import annotations

from syft.exceptions.base import SyftError


class NotPermittedError(SyftError):
    """A release was refused by the policy of the worker that holds the data."""

    code = "SY301"


class GetNotPermittedError(NotPermittedError):
    """The worker that holds a value does not release it."""

    code = "SY302"

    def __init__(self, message: str = "") -> None:
        super().__init__(message or "The worker that holds this value does not release it to you.")


class SendNotPermittedError(NotPermittedError):
    """This object may not be sent."""

    code = "SY303"

    def __init__(self, message: str = "") -> None:
        super().__init__(message or "This object may not be sent on your behalf.")


class BudgetExceededError(NotPermittedError):
    """A release would pass the limit of privacy loss that the owner of the data has set."""

    code = "SY304"


class PrivacyError(SyftError, ValueError):
    """A query can't be answered with differential privacy, because of its arguments."""

    code = "SY305"
