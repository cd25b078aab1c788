"""Numbers that bound what the library does, in one frozen value that can be overridden for a while.

Example:
    >>> import syft.config as config
    >>> with config.override(max_message_bytes=1024):
    ...     config.current().max_message_bytes
    1024
"""

from __future__ import annotations

import contextvars
import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager


@dataclasses.dataclass(frozen=True, slots=True)
class Config:
    """Limits of this process.

    Attributes:
        max_message_bytes: the largest message a worker reads, after decompression.
        max_departed: how many fetched or moved ids a store remembers, for clear errors.
        stream_timeout: seconds a caller waits for an answer of another worker.
        max_plan_operations: how many operations a plan may have.
    """

    max_message_bytes: int = 4 * 2**30
    max_departed: int = 1000
    stream_timeout: float = 60.0
    max_plan_operations: int = 20_000


_current: contextvars.ContextVar[Config] = contextvars.ContextVar("syft_config", default=Config())  # noqa: B039


def current() -> Config:
    """Return the limits in force."""
    return _current.get()


@contextmanager
def override(**changes: float) -> Iterator[Config]:
    """Change some limits inside a `with` block."""
    token = _current.set(dataclasses.replace(_current.get(), **changes))  # type: ignore[arg-type]
    try:
        yield _current.get()
    finally:
        _current.reset(token)
