"""The base of all errors, and errors of no family."""

from __future__ import annotations

from typing import ClassVar

from syft._extras import install_line
from syft.exceptions.manual import explain


class SyftError(Exception):
    """The base of this library's errors.

    Attributes:
        code: a stable code; docs/errors.md has a section for each.
    """

    code: ClassVar[str] = "SY000"

    def __init_subclass__(cls, code: str | None = None, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls.code = code or cls.code

    def explain(self) -> None:
        """Print when this error is raised and what to do about it."""
        explain(self.code)

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython prints; nothing else calls this."""
        from syft.exceptions.notebook import render

        return render(self)


class DependencyError(SyftError, code="SY001"):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str | None = None) -> None:
        self.package = package
        self.extra = extra
        line = f"pip install '{package}'" if extra is None else install_line(extra)
        super().__init__(f"The package {package!r} is needed for this and is not installed. Install it with: {line}")


class RemoteError(SyftError, code="SY002"):
    """An error raised by a worker, of a type that is not known here."""
