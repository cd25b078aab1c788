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
from syft.exceptions import NotDoneError, SerdeError, SessionEndedError, SyftError, WorkerLostError
from syft.messaging.message import BatchMessage, Message
from syft.workers.transport.fork_safety import FORKED, ends_here
from syft.workers.transport.gradient_cache import GradientCache
from syft.workers.transport.request_codec import read_answer, write_request
from syft.workers.transport.shape_inference import infer
from syft.workers.transport.stream import FailureGroup, Stream

# Ids that ride along with one message; the others ride with the next.
_MOST_RELEASED = 1 << 16
# How often something is asked again because calls before it failed, of which others were told.
_TRIES = 100
# Who issued a call: the file, the line, and whom it fails together with.
Line = tuple[str, int, FailureGroup | None]


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
        # How many calls failed that nobody waited for, as far as it is known here.
        self._heard = 0
        self._closed = False
        self._is_abandoned = False
        self._gradients = GradientCache()
        ends_here(self)

    @property
    def is_replaced(self) -> bool:  # type: ignore[override]
        """Whether the next call to the worker opens another stream: this one is another process's."""
        return self._is_abandoned

    def abandon(self) -> None:
        """Leave the stream to the process from which this one was forked."""
        self._closed = self._is_abandoned = True
        self._failed = None
        self._released = collections.deque()

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

    def post(self, message: Message, fate: FailureGroup | None = None) -> None:
        """Write a message and go on; an error of an earlier one surfaces here."""
        self.raise_failure()
        size = self._send(message, fate, None, False)
        metrics.record(self.client.id, self.location.id, size, False)

    def ask(self, message: Message) -> Any:
        """Write a message and wait for its answer, after everything written before it.

        If a call before it failed, that error is raised here, and what was asked is not done: what it would have
        fetched or changed is as it was.
        """
        for _ in range(_TRIES):
            # In this order: a failure is noted before it is counted, so one that is counted here is raised here.
            heard = self._heard
            self.raise_failure()
            try:
                return self._ask(message, heard)
            except NotDoneError as error:  # what failed is noted by now, or somebody else was told of it
                self._heard = max(self._heard, _failures_of(error))
            except (WorkerLostError, SessionEndedError):
                self.raise_failure()  # the session may have ended because of an earlier call
                raise
        self.raise_failure()
        raise SyftError(f"Calls before this one failed at {self.location.id!r}, again and again; it was not done.")

    def synchronize(self) -> None:
        """Wait until everything sent so far is done, whatever went wrong with it, and raise what did."""
        try:
            self._ask(BatchMessage(()), True)
        finally:
            self.raise_failure()  # it came first

    def _ask(self, message: Message, heard: bool | int) -> Any:
        future: Future[Any] = Future()
        size = self._send(message, None, future, heard)
        try:
            written = future.result(timeout=current().stream_timeout)
        except TimeoutError:
            raise TimeoutError(
                f"Worker {self.location.id!r} did not answer within {current().stream_timeout} s. "
                "It may be busy; wait longer with syft.config.override(stream_timeout=...)."
            ) from None
        metrics.record(self.client.id, self.location.id, size + len(written), True)
        return read_answer(self.client, self.location, written)

    def _send(self, message: Message, fate: FailureGroup | None, future: Future[Any] | None, waits: int | bool) -> int:
        """Have a message delivered, and return its size; what was released stays noted if that can't be.

        Args:
            message: the message.
            fate: whom it fails together with.
            future: takes its answer, if somebody waits for it.
            waits: how many failures are known here, if somebody waits for an answer; else False.
        """
        released = self._take_released()
        try:
            request = write_request(self.client, released, message, waits)
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
        if self._is_abandoned:
            raise self.lost_error(FORKED)
        if self._closed:
            raise SyftError(
                f"The stream from {self.client.id!r} to {self.location.id!r} is closed; "
                "what was sent there before is gone."
            )

    def lost_error(self, reason: str) -> Exception:
        """Return what those are told who use a stream that is lost."""
        return WorkerLostError(self.location.id, reason)

    def raise_failure(self) -> None:
        """Raise the error of an earlier call that nobody has heard of yet, if there is one."""
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def _hear(self, written: Any, line: Any) -> None:
        """Take note that a call failed that nobody waits for."""
        self._note_failure(written, line)
        self._heard += 1

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


def _failures_of(error: NotDoneError) -> int:
    """Return how many calls failed before one that was not done, as the worker says."""
    said = getattr(error, "syft_step", "")
    return int(said) if said.isdecimal() and len(said) < 18 else 0
