"""AbstractWorker: the base class of all workers."""

from __future__ import annotations

from abc import ABC


class AbstractWorker(ABC):  # noqa: B024  (a marker: what a worker must do is in BaseWorker)
    """A party that holds objects and responds to messages."""
