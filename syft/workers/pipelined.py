"""PipelinedStream: requests are written and the client goes on; an error surfaces at a later call, with its line.

What carries the bytes is left to those who derive from it: a thread of this process, or a socket.
"""

from __future__ import annotations

import collections
from concurrent.futures import Future
from typing import Any

from syft.config import current
from syft.core import metrics
from syft.core.callsite import describe_line, user_line
from syft.core.id_provider import ObjectId
from syft.core.references import Ref, TensorMeta
from syft.exceptions import SerdeError, SyftError
from syft.messaging.message import Message
from syft.workers.gradients import Gradients
from syft.workers.inference import infer
from syft.workers.stream import Fate, Stream
from syft.workers.wire import read_answer, write_request

# Ids that ride along with one message; the others ride with the next.
_MOST_RELEASED = 1 << 16
# Who issued a call: the file, the line, and whom it fails together with.
Line = tuple[str, int, Fate | None]


class WritingStream(Stream):
    """A stream whose messages are bytes; what its client lets go of rides along with the next one."""

    def __init__(self, client: Any, location: Any) -> None:
        super().__init__(client, location)
        # deque.append is atomic: finalizers of any thread may use it.
        self._released: collections.deque[ObjectId] = collections.deque()

    def release(self, obj_id: ObjectId) -> None:
        """Note an id; it rides along with the next message."""
        self._released.append(obj_id)

    def _take_released(self) -> tuple[ObjectId, ...]:
        taken: list[ObjectId] = []
        try:
            while self._released and len(taken) < _MOST_RELEASED:
                taken.append(self._released.popleft())
        except IndexError:  # another thread took the last one
            pass
        return tuple(taken)


class PipelinedStream(WritingStream):
    """A stream that does not wait for what needs no answer.

    Attributes:
        largest: bytes of the largest request that the worker reads; None: it reads any.
    """

    largest: int | None = None

    def __init__(self, client: Any, location: Any) -> None:
        super().__init__(client, location)
        self._failed: Exception | None = None
        self._closed = False
        self._gradients = Gradients()

    def release(self, obj_id: ObjectId) -> None:
        """Note an id; it rides along with the next message."""
        self._gradients.forget(obj_id)
        super().release(obj_id)

    def grad_meta(self, ref: Ref) -> TensorMeta | None:
        """Return the metadata of a tensor's gradient; asks for it unless it is known."""
        return super().grad_meta(ref) if ref.attribute is not None else self._gradients.meta_of(ref.id, self.ask)

    def _put(self, request: bytes, line: Line, future: Future[Any] | None) -> None:
        """Have a request delivered after those before it; its answer goes to the future, if somebody waits for it."""
        raise NotImplementedError(f"{type(self).__name__} must say how a request is delivered")

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

    def post(self, message: Message, fate: Fate | None = None) -> None:
        """Write a message and go on; an error of an earlier one surfaces here."""
        self.raise_failure()
        size = self._send(message, fate, None)
        metrics.record(self.client.id, self.location.id, size, False)

    def ask(self, message: Message) -> Any:
        """Write a message and wait for its answer, after everything written before it."""
        future: Future[Any] = Future()
        size = self._send(message, None, future)
        try:
            written = future.result(timeout=current().stream_timeout)
        except TimeoutError:
            raise TimeoutError(
                f"Worker {self.location.id!r} did not answer within {current().stream_timeout} s. "
                "It may be busy; wait longer with syft.config.override(stream_timeout=...)."
            ) from None
        self.raise_failure()
        metrics.record(self.client.id, self.location.id, size + len(written), True)
        return read_answer(self.client, self.location, written)

    def _send(self, message: Message, fate: Fate | None, future: Future[Any] | None) -> int:
        """Have a message delivered, and return its size; what was released stays noted if that can't be."""
        released = self._take_released()
        try:
            request = write_request(self.client, released, message, future is not None)
            self._check_open()
            self._check_size(len(request))
            self._put(request, (*user_line(), fate), future)
        except Exception:
            self._released.extend(released)
            raise
        self._gradients.note(message)
        return len(request)

    def _check_size(self, size: int) -> None:
        """Refuse what the worker would not read: it would hang up in the middle of it."""
        if self.largest is not None and size > self.largest:
            raise SerdeError(
                f"This takes a message of {size} bytes, and worker {self.location.id!r} reads none of more than "
                f"{self.largest} (max_message_bytes). Nothing was sent: send it in parts, or have the worker started "
                "with a larger max_message_bytes."
            )

    def settle(self) -> None:
        """Wait until everything sent so far is done."""
        self.synchronize()

    def _check_open(self) -> None:
        if self._closed:
            raise SyftError(
                f"The stream from {self.client.id!r} to {self.location.id!r} is closed; "
                "what was sent there before is gone."
            )

    def raise_failure(self) -> None:
        """Raise the error of an earlier call that nobody has heard of yet, if there is one."""
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def _note_failure(self, written: Any, line: Line) -> None:
        """Keep the first error of a call that nobody waits for, with the line that issued the call."""
        if self._failed is not None:
            return
        try:
            read_answer(self.client, self.location, written)
        except Exception as error:
            file, number, fate = line
            if fate is None or fate.tell():
                error.add_note(f"The failing call was issued by {describe_line((file, number))}")
                self._failed = error
