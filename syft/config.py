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
        max_nested_bytes: the most memory that the nested values of one message may unfold into, tensors excepted.
        max_departed: how many fetched or moved ids a store remembers, for clear errors.
        stream_timeout: seconds a caller waits for an answer of another worker.
        reconnect_timeout: seconds that a stream to a node tries to come back after its connection was lost.
        heartbeat: seconds without a word after which the other end of a websocket is asked whether it is there; it has
            as long again to answer.
        max_plan_operations: how many operations a plan may have.
        token_leeway: seconds by which the clocks of two machines may differ when a token is read.
    """

    max_message_bytes: int = 4 * 2**30
    max_nested_bytes: int = 2**30
    max_departed: int = 1000
    stream_timeout: float = 60.0
    reconnect_timeout: float = 30.0
    heartbeat: float = 20.0
    max_plan_operations: int = 20_000
    token_leeway: float = 30.0


_current: contextvars.ContextVar[Config | None] = contextvars.ContextVar("syft_config", default=None)
_of_process = [Config()]


def current() -> Config:
    """Return the limits in force."""
    return _current.get() or _of_process[0]


def configure(**changes: float) -> None:
    """Change some limits of this process, for all its threads and for good; inside an override that one counts."""
    _of_process[0] = dataclasses.replace(_of_process[0], **changes)  # type: ignore[arg-type]


@contextmanager
def override(**changes: float) -> Iterator[Config]:
    """Change some limits inside a `with` block."""
    changed = dataclasses.replace(current(), **changes)  # type: ignore[arg-type]
    token = _current.set(changed)
    try:
        yield changed
    finally:
        _current.reset(token)
