"""Limits of the library, in one frozen value that can be overridden for a `with` block.

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
        max_nested_bytes: the memory that the nested values of one message may need when read, without tensors.
        max_departed: the number of fetched or moved ids that a store remembers, for clear errors.
        stream_timeout: seconds to wait for a response of another worker.
        reconnect_timeout: seconds to try to reconnect to a node after a lost connection.
        heartbeat: seconds of silence after which the other end of a websocket is pinged; it has as long to respond.
        max_plan_operations: the number of operations that a plan may have.
        token_leeway: seconds by which the clocks of two machines may differ when a token is checked.
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
    """Change limits for all threads of this process; inside an `override` block its values win."""
    _of_process[0] = dataclasses.replace(_of_process[0], **changes)  # type: ignore[arg-type]


@contextmanager
def override(**changes: float) -> Iterator[Config]:
    """Change limits inside a `with` block."""
    changed = dataclasses.replace(current(), **changes)  # type: ignore[arg-type]
    token = _current.set(changed)
    try:
        yield changed
    finally:
        _current.reset(token)
