"""RemoteTraceback: where an error of a worker came from; Python prints it before the error, as its cause."""

from __future__ import annotations

from typing import Any


class RemoteTraceback(Exception):
    """The origin of an error at another worker.

    Args:
        worker_id: the worker.
        said: its description: the lines of its traceback, which begin with spaces, then facts. Both may be missing.

    Attributes:
        lines: further facts, such as the line of this program that issued the call.
    """

    def __init__(self, worker_id: object, said: str = "") -> None:
        super().__init__(worker_id, said)
        self.worker_id = worker_id
        self.said = said.rstrip()
        self.lines: list[str] = []

    @property
    def brief(self) -> list[str]:
        """The facts without tracebacks."""
        facts = [line for line in self.said.splitlines() if line and not line.startswith((" ", "Traceback on"))]
        return [*(facts or [f"This happened on worker {self.worker_id!r}."]), *self.lines]

    def __str__(self) -> str:
        if not self.said.startswith(" "):
            return "\n".join(self.brief)
        return "\n".join((f"Traceback on worker {self.worker_id!r}:", self.said, *self.lines))


def add_fact(error: BaseException, line: str) -> None:
    """Add a fact to the origin of an error, or a note if it has none."""
    if isinstance(error.__cause__, RemoteTraceback):
        error.__cause__.lines.append(line)
    else:
        error.add_note(line)


def facts_of(error: BaseException) -> str:
    """Return the origin and the notes of an error, as text."""
    notes: list[Any] = list(getattr(error, "__notes__", ()))
    return "\n".join([*([str(error.__cause__)] if isinstance(error.__cause__, RemoteTraceback) else []), *notes])
