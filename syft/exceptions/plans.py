"""Errors of plans."""

from __future__ import annotations

from syft.exceptions.base import SyftError


class PlanCommandUnknownError(SyftError):
    """An unknown plan command."""

    code = "SY401"

    def __init__(self, command_name: object = None) -> None:
        super().__init__(f"Command {command_name!r} is not implemented.")


class PlanBuildError(SyftError):
    """A function can't be recorded as a plan without losing one of its effects."""

    code = "SY402"

    def __init__(self, what: str, line: str = "", hint: str = "") -> None:
        self.what = what
        self.line = line
        self.hint = hint
        super().__init__(f"{what} can't be recorded in a plan." + (f" {hint}" if hint else "") + (line and f"\n{line}"))


class PlanMismatchError(SyftError):
    """A plan is called with arguments that it was not built for."""

    code = "SY403"


class MalformedPlanError(SyftError):
    """The parts of a plan are inconsistent; it is refused before any of it runs."""

    code = "SY404"


class PlanTranslationError(SyftError):
    """A plan can't be translated: an operation has no equivalent, or its results would differ."""

    code = "SY405"
