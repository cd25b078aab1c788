"""SuspendableStream: a stream whose connection can be closed while its session goes on at the worker.

A client that is closed may be connected again: pointers then still lead to objects of the session, if the worker has
kept it. The next call over the stream, or `resume`, connects again.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from syft.exceptions import SessionEndedError, WorkerLostError
from syft.workers.transport.pipelined import PipelinedStream

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker


class SuspendableStream(PipelinedStream):
    """A stream that can be suspended and resumed; subclasses wait for `_resumed` before they connect again."""

    def __init__(self, client: BaseWorker, location: BaseWorker) -> None:
        super().__init__(client, location)
        self._resumed = threading.Event()
        self._resumed.set()

    @property
    def is_suspended(self) -> bool:
        """Whether it has no connection until the next call."""
        return not self._resumed.is_set()

    @property
    def is_connected(self) -> bool:
        """Whether it is neither suspended nor over."""
        return not (self.is_suspended or self.is_over)

    def suspend(self) -> None:
        """Finish all requests and close the connection; the worker keeps the session for a while."""
        if not self.is_connected:
            return
        failed = self._finish_calls()
        self._resumed.clear()
        self._hang_up()
        if failed is not None:
            raise failed
        self.raise_failure()

    def resume(self) -> bool:
        """Connect again; returns whether the worker has kept the session."""
        if not self.is_suspended:
            return not self.is_over
        try:
            self.synchronize()
        except (WorkerLostError, SessionEndedError):
            return False
        return True

    def _check_open(self) -> None:
        """Connect again before a call, if the stream is suspended."""
        super()._check_open()
        self._resumed.set()

    def _finish_calls(self) -> Exception | None:
        """Wait until all requests are done, and return their error."""
        raise NotImplementedError(f"{type(self).__name__} must define _finish_calls()")

    def _hang_up(self) -> None:
        """Close the connection."""
        raise NotImplementedError(f"{type(self).__name__} must define _hang_up()")
