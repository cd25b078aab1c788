"""The worker that the running code acts for: `me`, or the worker of the `acting_as` block."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from syft.exceptions import SyftError

if TYPE_CHECKING:
    from syft.workers.abstract import AbstractWorker

_acting: contextvars.ContextVar[Any] = contextvars.ContextVar("syft_acting_worker", default=None)
_default: list[Any] = []


class _Recording(threading.local):
    # While this thread records a plan: makes the error for a message that is about to be sent.
    refuse: Callable[[str], Exception] | None = None


recording = _Recording()


def set_default_worker(worker: object) -> None:
    """Make `worker` the one that code acts for in every thread; None resets it."""
    _default[:] = [] if worker is None else [worker]


def local_worker(required: bool = True) -> Any:
    """Return the worker the running code acts for."""
    worker = _acting.get()
    if worker is None and _default:
        worker = _default[0]
    if worker is None and required:
        raise SyftError("No local worker: hook torch first, with hook = sy.TorchHook(torch).")
    return worker


def refuse_while_recording(what: str) -> None:
    """Raise if this thread records a plan: a message sent meanwhile would not be part of it."""
    if recording.refuse is not None:
        raise recording.refuse(what)


@contextmanager
def acting_as(worker: AbstractWorker) -> Iterator[Any]:
    """Act for another worker inside a `with` block (of this thread or task only)."""
    token = _acting.set(worker)
    try:
        yield worker
    finally:
        _acting.reset(token)
