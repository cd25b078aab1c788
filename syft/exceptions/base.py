"""The base of all errors, and errors of no family."""

from __future__ import annotations

from typing import ClassVar


class SyftError(Exception):
    """The base of this library's errors.

    Attributes:
        code: a stable code; docs/errors.md has a section for each.
    """

    code: ClassVar[str] = "SY000"

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython prints; nothing else calls this."""
        from syft.exceptions.notebook import render

        return render(self)


class DependencyError(SyftError):
    """An optional package is not installed."""

    code = "SY001"

    def __init__(self, package: str, install: str | None = None) -> None:
        self.package = package
        self.install = install or package
        super().__init__(
            f"The package {package!r} is needed for this and is not installed. "
            f"Install it with: pip install '{self.install}'"
        )


class RemoteError(SyftError):
    """An error raised by a worker, of a type that is not known here."""

    code = "SY002"
