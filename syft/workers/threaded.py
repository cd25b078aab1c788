"""Streams that go through bytes: one delivers in place, one has a thread of its own and does not wait.

The threaded one behaves as a worker on another machine does: commands are written and the caller goes on; an error
surfaces at a later call, and names the line that issued the failing one.
"""

from __future__ import annotations

import collections
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from syft.config import current
from syft.core import metrics
from syft.core.callsite import describe_line, user_line
from syft.core.id_provider import ObjectId
from syft.exceptions import SyftError
from syft.messaging.message import Message
from syft.workers.inference import infer
from syft.workers.stream import Stream, is_value
from syft.workers.wire import answer, read_answer, write_request


class BytesStream(Stream):
    """A stream to a worker of this process that writes and reads every message."""

    def __init__(self, client: Any, location: Any) -> None:
        super().__init__(client, location)
        self.session = location.open_session(client.id)
        # deque.append is atomic: finalizers of any thread may use it.
        self._released: collections.deque[ObjectId] = collections.deque()

    def release(self, obj_id: ObjectId) -> None:
        """Note an id; it rides along with the next message."""
        self._released.append(obj_id)

    def _take_released(self) -> tuple[ObjectId, ...]:
        taken = []
        while self._released:
            taken.append(self._released.popleft())
        return tuple(taken)

    def flush(self) -> None:
        """Drop the claims noted so far, without a message (the worker is in this process)."""
        for obj_id in self._take_released():
            self.session.release(obj_id)

    def run(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], base: ObjectId | None, originals: Any = None
    ) -> Any:
        """Run a call; only a value counts as a wait, since the form of a result can be worked out."""
        return self._exchange(self._operation(name, args, kwargs, base), waits=True, counted=is_value)

    def post(self, message: Message) -> None:
        """Deliver a message; its errors surface here."""
        self._exchange(message, waits=False)

    def ask(self, message: Message) -> Any:
        """Deliver a message and return its answer."""
        return self._exchange(message, waits=True)

    def _exchange(self, message: Message, waits: bool, counted: Callable[[Any], bool] | None = None) -> Any:
        request = write_request(self.client, self._take_released(), message, waits)
        written = answer(self.location, self.session, request)
        response = read_answer(self.client, self.location, written)
        waited = waits if counted is None else counted(response)
        metrics.record(self.client.id, self.location.id, len(request) + (len(written) if waited else 0), waited)
        return response

    def close(self) -> None:
        """End the session."""
        self.flush()
        self.session.close()


class ThreadStream(BytesStream):
    """A stream with a thread that delivers in order, so that the client does not wait."""

    def __init__(self, client: Any, location: Any) -> None:
        super().__init__(client, location)
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._failed: Exception | None = None
        self._closed = False
        name = f"syft {client.id} to {location.id}"
        self._thread = threading.Thread(target=self._deliver_all, name=name, daemon=True)
        self._thread.start()

    def run(
        self,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        base: ObjectId | None,
        originals: Any = None,
    ) -> Any:
        """Run a call without waiting if the form of its result can be worked out here."""
        operation = self._operation(name, args, kwargs, base)
        known, response = infer(name, *originals) if originals is not None else (False, None)
        if not known:
            return self.ask(operation)
        self.post(operation)
        return response

    def post(self, message: Message) -> None:
        """Write a message and go on; an error of an earlier one surfaces here."""
        self._raise_failure()
        request = write_request(self.client, self._take_released(), message, False)
        self._put(request, user_line(), None)

    def ask(self, message: Message) -> Any:
        """Write a message and wait for its answer, after everything written before it."""
        request = write_request(self.client, self._take_released(), message, True)
        future: Future[bytes] = Future()
        self._put(request, user_line(), future)
        try:
            written = future.result(timeout=current().stream_timeout)
        except TimeoutError:
            raise TimeoutError(
                f"Worker {self.location.id!r} did not answer within {current().stream_timeout} s. "
                "It may be busy; wait longer with syft.config.override(stream_timeout=...)."
            ) from None
        self._raise_failure()
        metrics.record(self.client.id, self.location.id, len(request) + len(written), True)
        return read_answer(self.client, self.location, written)

    def settle(self) -> None:
        """Wait until everything sent so far is done."""
        self.synchronize()

    def _put(self, request: bytes, line: tuple[str, int], future: Future[bytes] | None) -> None:
        if self._closed:
            raise SyftError(
                f"The stream from {self.client.id!r} to {self.location.id!r} is closed; "
                "what was sent there before is gone."
            )
        if future is None:
            metrics.record(self.client.id, self.location.id, len(request), False)
        self._queue.put((request, line, future))

    def _raise_failure(self) -> None:
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def _deliver_all(self) -> None:
        while (item := self._queue.get()) is not None:
            request, line, future = item
            written = answer(self.location, self.session, request)
            if future is not None:
                future.set_result(written)
            elif written:
                self._note_failure(written, line)

    def _note_failure(self, written: bytes, line: tuple[str, int]) -> None:
        """Keep the first error of a call that nobody waits for, with the line that issued the call."""
        if self._failed is not None:
            return
        try:
            read_answer(self.client, self.location, written)
        except Exception as error:
            error.add_note(f"The failing call was issued by {describe_line(line)}")
            self._failed = error

    def close(self) -> None:
        """Deliver what is left, end the thread and the session."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            self._thread.join(timeout=current().stream_timeout)
            super().close()
