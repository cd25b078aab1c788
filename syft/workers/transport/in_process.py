"""Streams to workers of this process that serialize messages: one delivers in place, one from a thread of its own.

The threaded stream behaves like one to another machine: commands are sent without waiting; an error surfaces at a
later call, with the line that issued the failing one.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from syft.config import current
from syft.core import metrics
from syft.core.id_provider import ObjectId
from syft.messaging.message import Message
from syft.workers.transport.pipe import Bytes
from syft.workers.transport.pipelined import Line, PipelinedStream
from syft.workers.transport.request_codec import answer, read_answer, write_request
from syft.workers.transport.stream import FailureGroup, ReleaseQueue, Stream, is_value

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker


class BytesStream(Stream):
    """A stream to a worker of this process that serializes every message."""

    def __init__(self, client: BaseWorker, location: BaseWorker) -> None:
        super().__init__(client, location)
        self.session = location.open_session(client.id)
        self._released = ReleaseQueue()

    def release(self, obj_id: ObjectId) -> None:
        """Queue an id for release with the next message."""
        self._released.append(obj_id)

    def flush(self) -> None:
        """Drop the claims released so far, without a message: the worker is in this process."""
        for obj_id in self._released.take():
            self.session.release(obj_id)

    def run(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], base: ObjectId | None, originals: object = None
    ) -> Any:
        """Run a call; only a value counts as a wait, since other result specs can be inferred."""
        return self._exchange(self._operation(name, args, kwargs, base), waits=True, counted=is_value)

    def post(self, message: Message, failure_group: FailureGroup | None = None) -> None:
        """Deliver a message; its errors surface here."""
        self._exchange(message, waits=False)

    def ask(self, message: Message) -> Any:
        """Deliver a message and return its response."""
        return self._exchange(message, waits=True)

    def _exchange(self, message: Message, waits: bool, counted: Callable[[Any], bool] | None = None) -> Any:
        request = write_request(self.client, self._released.take(), message, waits)
        written = answer(self.location, self.session, request)
        response = read_answer(self.client, self.location, written)
        waited = waits if counted is None else counted(response)
        metrics.record(self.client.id, self.location.id, len(request) + (len(written) if waited else 0), waited)
        return response

    def close(self) -> None:
        """End the session."""
        self.flush()
        self.session.close()


class ThreadStream(PipelinedStream):
    """A stream with a thread that delivers in order, so that the client does not wait."""

    def __init__(self, client: BaseWorker, location: BaseWorker) -> None:
        super().__init__(client, location)
        self.session = location.open_session(client.id)
        self.session.may_wait = True
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._start(self._deliver_all)

    def flush(self) -> None:
        """Drop the claims released so far, without a message: the worker is in this process."""
        for obj_id in self._released.take():
            self.session.release(obj_id)

    def _put(self, request: bytes, line: Line, future: Future[Bytes] | None) -> None:
        self._queue.put((request, line, future))

    def _deliver_all(self) -> None:
        while (item := self._queue.get()) is not None:
            request, line, future = item
            written = answer(self.location, self.session, request)
            if future is not None:
                future.set_result(written)
            elif written:
                self._on_failure(written, line)

    def close(self) -> None:
        """Deliver what is queued, end the thread and the session."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            self._thread.join(timeout=current().stream_timeout)
            self.flush()
            self.session.close()
            self.raise_failure()
