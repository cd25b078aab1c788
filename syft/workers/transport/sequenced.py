"""SequencedStream: requests have numbers, and an answer says by its number that those before it went well."""

from __future__ import annotations

import collections
import contextlib
import threading
from concurrent.futures import Future
from typing import Any

from syft.core.id_provider import ObjectId
from syft.exceptions import SerdeError, SessionEndedError, WorkerLostError
from syft.messaging.message import BatchMessage
from syft.workers.transport.framing import ANSWER
from syft.workers.transport.pipelined import Line, PipelinedStream
from syft.workers.transport.request_codec import write_request


class SequencedStream(PipelinedStream):
    """A stream to a worker elsewhere, whose end may be lost."""

    def __init__(self, client: Any, location: Any) -> None:
        super().__init__(client, location)
        self._order = threading.Lock()
        self._number = 0
        self._lost: str | None = None
        # (number, line, future) of what was written and not heard of since
        self._pending: collections.deque[tuple[int, Line, Future[Any] | None]] = collections.deque()

    @property
    def is_over(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._closed or self._lost is not None

    def abandon(self) -> None:
        """Leave the stream to the process from which this one was forked."""
        super().abandon()
        self._order = threading.Lock()
        self._pending = collections.deque()

    def release(self, obj_id: ObjectId) -> None:
        """Note an id; it rides along with the next message, if there can be one."""
        if not self.is_over:
            super().release(obj_id)

    def has_released(self) -> bool:
        """Say whether ids wait for a message to ride along with."""
        return bool(self._released) and not self.is_over

    def pass_on(self) -> None:
        """Send the ids noted so far: the client is a worker, which may have nothing else to say for long."""
        if self.has_released():
            request = write_request(self.client, self._take_released(), BatchMessage(()), False)
            with contextlib.suppress(WorkerLostError, SessionEndedError):  # then they are gone anyway
                self._put(request, ("", 0, None), None)

    def _take_answer(self, kind: int, number: int, written: Any) -> None:
        """Take the answer of a request; those before it that were not answered went well."""
        while self._pending and self._pending[0][0] <= number:
            asked, line, future = self._pending.popleft()
            if asked == number and future is not None:
                future.set_result(written)
            elif asked == number and written:
                self._hear(written, line)
        if kind != ANSWER:
            raise SerdeError("It sent a frame that is not an answer.")

    def _give_up(self, reason: str) -> None:
        """Nothing comes any more: tell everybody who waits."""
        with self._order:
            self._lost = reason
        for _, _, future in self._pending:
            if future is not None and not future.done():
                future.set_exception(self.lost_error(reason))
        self._pending.clear()
        self._released.clear()
