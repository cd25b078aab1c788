"""RemoteTraceback: where an error of a worker came from; Python prints it before the error, as its cause."""

from __future__ import annotations

from typing import Any


class RemoteTraceback(Exception):
    """The origin of an error at another worker.

    Args:
        worker_id: the worker.
        frames: its traceback; empty if it does not send one.

    Attributes:
        lines: further facts, such as the line of this program that issued the call.
    """

    def __init__(self, worker_id: object, frames: str = "") -> None:
        super().__init__(worker_id, frames)
        self.worker_id = worker_id
        self.frames = frames.rstrip()
        self.lines: list[str] = []

    @property
    def brief(self) -> list[str]:
        """The facts without the traceback."""
        return [f"This happened on worker {self.worker_id!r}.", *self.lines]

    def __str__(self) -> str:
        first = f"Traceback on worker {self.worker_id!r}:\n{self.frames}" if self.frames else self.brief[0]
        return "\n".join((first, *self.lines))


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
