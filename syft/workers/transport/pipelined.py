"""PipelinedStream: requests are sent without waiting; an error surfaces at a later call, with the line it is about.

Requests are numbered: a response confirms by its number that the requests before it succeeded. Subclasses deliver the
bytes: through a thread of this process, a socket, a WebSocket or a Ray actor.
"""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from syft.config import current
from syft.core import metrics
from syft.core.callsite import describe_line, user_line
from syft.core.id_provider import ObjectId
from syft.core.references import Ref, TensorMeta
from syft.exceptions import (
    NotDoneError,
    RunAbortedError,
    SerdeError,
    SessionEndedError,
    SyftError,
    WorkerLostError,
)
from syft.exceptions.remote_traceback import add_fact
from syft.messaging.message import BatchMessage, Message
from syft.workers.transport.fork_safety import FORKED, ends_here
from syft.workers.transport.framing import ANSWER
from syft.workers.transport.gradient_cache import GradientCache
from syft.workers.transport.pipe import Bytes
from syft.workers.transport.request_codec import read_answer, write_request
from syft.workers.transport.shape_inference import infer
from syft.workers.transport.stream import FailureGroup, ReleaseQueue, Stream

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

# Attempts at a call that is refused because calls before it failed, whose errors were reported elsewhere.
_MAX_ATTEMPTS = 100
# The origin of a call: its file and line, and the calls that it fails together with.
Line = tuple[str, int, FailureGroup | None]
# Lines of a batch of calls, one for each call.
Lines = tuple[Line, ...]


class PipelinedStream(Stream):
    """A stream that does not wait for requests that need no response.

    Attributes:
        largest: bytes of the largest request that the worker reads; None: no limit.
    """

    largest: int | None = None
    defers_failures = True

    def __init__(self, client: BaseWorker, location: BaseWorker) -> None:
        super().__init__(client, location)
        self._released = ReleaseQueue()
        self._failed: tuple[Exception, FailureGroup | None] | None = None
        # Failures, as far as known here, of calls that no caller waited for.
        self._failures = 0
        self._closed = False
        self._is_detached = False
        self._gradients = GradientCache()
        self._order = threading.Lock()
        self._number = 0
        self._lost: str | None = None
        # (number, line, future) of the requests that were sent and are not confirmed yet.
        self._pending: collections.deque[tuple[int, Line | Lines, Future[Bytes] | None]] = collections.deque()
        ends_here(self)

    @property
    def is_replaced(self) -> bool:  # type: ignore[override]
        """Whether the next call to the worker opens another stream: this one belongs to another process."""
        return self._is_detached

    def _start(self, target: Callable[[], None]) -> None:
        """Start the thread of the stream."""
        name = f"syft {self.client.id} to {self.location.id}"
        self._thread = threading.Thread(target=target, name=name, daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._closed or self._lost is not None

    def detach_after_fork(self) -> None:
        """Leave the stream to the process from which this one was forked."""
        self._closed = self._is_detached = True
        self._failed = None
        self._released = ReleaseQueue()
        self._order = threading.Lock()
        self._pending = collections.deque()

    def release(self, obj_id: ObjectId) -> None:
        """Queue an id for release with the next message, if there can be one."""
        if self._lost is None and not self._closed:
            self._gradients.forget(obj_id)
            self._released.append(obj_id)
            self.location._note_release(obj_id, is_gone=False)

    def has_released(self) -> bool:
        """Return whether ids wait for a message that releases them."""
        return bool(self._released) and not self.is_over

    def pass_on(self) -> None:
        """Send the ids released so far: the client is a worker, which may send nothing else for a long time."""
        if self.has_released():
            request = write_request(self.client, self._released.take(), BatchMessage(()), False)
            with contextlib.suppress(WorkerLostError, SessionEndedError):  # then the objects are gone anyway
                self._put(request, ("", 0, None), None)

    def grad_meta(self, ref: Ref) -> TensorMeta | None:
        """Return the metadata of a tensor's gradient, from the cache if possible."""
        return super().grad_meta(ref) if ref.attribute is not None else self._gradients.meta_of(ref.id, self.ask)

    def note_gradient(self, ref: Ref, meta: TensorMeta) -> None:
        """Cache the metadata of a gradient that this client has just set."""
        if ref.attribute is None:
            self._gradients.learn(ref.id, meta)

    def _put(self, request: bytes, line: Line, future: Future[Bytes] | None) -> None:
        """Deliver a request after those before it; its response goes to the future, if there is one."""
        raise NotImplementedError(f"{type(self).__name__} must define _put()")

    def run(
        self,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        base: ObjectId | None,
        originals: Any = None,
    ) -> Any:
        """Run a call without waiting if its result spec can be inferred here."""
        operation = self._operation(name, args, kwargs, base)
        known, response = infer(name, *originals) if originals is not None else (False, None)
        if not known:
            return self.ask(operation)
        self.post(operation)
        return response

    def post(self, message: Message, failure_group: FailureGroup | None = None) -> None:
        """Send a message without waiting; the error of an earlier one is raised here."""
        self.raise_failure()
        if failure_group is not None:
            failure_group.streams.append(self)
        size = self._send(message, failure_group, None, False)
        metrics.record(self.client.id, self.location.id, size, False)

    def ask(self, message: Message) -> Any:
        """Send a message and wait for its response, after everything sent before it.

        If a call before it failed, that error is raised here and the worker does not process the message: nothing is
        fetched or changed.
        """
        for _ in range(_MAX_ATTEMPTS):
            # In this order: a failure is recorded before it is counted, so a counted failure is raised here.
            failures = self._failures
            self.raise_failure()
            try:
                return self._ask(message, failures)
            except NotDoneError as error:  # the failure is recorded by now, or was reported elsewhere
                self._failures = max(self._failures, _step_of(error))
            except (WorkerLostError, SessionEndedError):
                self.raise_failure()  # the session may have ended because of an earlier call
                raise
        self.raise_failure()
        raise SyftError(f"Calls before this one failed at {self.location.id!r}, again and again; it was not done.")

    def synchronize(self) -> None:
        """Wait until everything sent so far is done, and raise the first error."""
        try:
            self._ask(BatchMessage(()), True)
        finally:
            self.raise_failure()  # the earlier error comes first

    def _ask(self, message: Message, failures: bool | int) -> Any:
        future: Future[Bytes] = Future()
        size = self._send(message, None, future, failures)
        try:
            written = future.result(timeout=current().stream_timeout)
        except TimeoutError:
            raise TimeoutError(
                f"Worker {self.location.id!r} did not answer within {current().stream_timeout} s. "
                "It may be busy; wait longer with syft.config.override(stream_timeout=...)."
            ) from None
        metrics.record(self.client.id, self.location.id, size + len(written), True)
        return read_answer(self.client, self.location, written)

    def _send(
        self, message: Message, failure_group: FailureGroup | None, future: Future[Bytes] | None, waits: int | bool
    ) -> int:
        """Deliver a message and return its size; if that fails, released ids stay queued.

        `waits` is the number of failures known here, if a caller waits for a response; else False.
        """
        released = self._released.take()
        try:
            request = write_request(self.client, released, message, waits)
            self._check_open()
            self._check_size(len(request))
            self._put(request, (*user_line(), failure_group), future)
        except Exception:
            self._released.extend(released)
            raise
        self._gradients.note(message)
        return len(request)

    def _check_size(self, size: int) -> None:
        """Refuse a request that the worker would not read: it would close the connection in the middle of it."""
        if self.largest is not None and size > self.largest:
            raise SerdeError(
                f"This message has {size} bytes and worker {self.location.id!r} reads at most {self.largest} "
                "(max_message_bytes). Nothing was sent. Send it in parts, or start the worker "
                "with a larger max_message_bytes."
            )

    def barrier(self) -> None:
        """Wait until everything sent so far is done."""
        self.synchronize()

    def _check_open(self) -> None:
        if self._is_detached:
            raise self.lost_error(FORKED)
        if self._closed:
            raise SyftError(
                f"The stream from {self.client.id!r} to {self.location.id!r} is closed; objects sent over it are gone."
            )

    def lost_error(self, reason: str) -> Exception:
        """Return the error of calls on a lost stream."""
        return WorkerLostError(self.location.id, reason)

    def raise_failure(self) -> None:
        """Raise the unreported error of an earlier call, if there is one."""
        failed, self._failed = self._failed, None
        if failed is None:
            return
        error, group = failed
        if group is not None:
            if isinstance(error, RunAbortedError):
                error = self._cause(group) or error
            if not group.report():
                return
            for stream in group.streams:
                stream._take_failure(group)
        raise error

    def _cause(self, group: FailureGroup) -> Exception | None:
        """Return the error of the party that aborted a run: it has sent it, or is about to."""
        for stream in group.streams:
            if stream is not self:
                with contextlib.suppress(Exception):
                    stream._ask(BatchMessage(()), True)
                error: Exception | None = stream._take_failure(group)
                if error is not None and not isinstance(error, RunAbortedError):
                    return error
        return None

    def _take_failure(self, group: FailureGroup) -> Exception | None:
        """Remove and return the unreported error of a call of a group."""
        if self._failed is None or self._failed[1] is not group:
            return None
        error, self._failed = self._failed[0], None
        return error

    def _receive_answer(self, kind: int, number: int, written: Bytes) -> None:
        """Process the response to a request; requests before it without a response succeeded."""
        while self._pending and self._pending[0][0] <= number:
            request, line, future = self._pending.popleft()
            if request == number and future is not None:
                future.set_result(written)
            elif request == number and written:
                self._on_failure(written, line)
        if kind != ANSWER:
            raise SerdeError("The worker sent a frame that is not a response.")

    def _on_failure(self, written: Bytes, line: Line | Lines) -> None:
        """Record that a call failed that no caller waits for."""
        if self._failed is None:
            self._record_failure(written, line)
        self._failures += 1

    def _record_failure(self, written: Bytes, line: Line | Lines) -> None:
        """Keep the error of a call that no caller waits for, with the line that issued the call."""
        try:
            read_answer(self.client, self.location, written)
        except Exception as error:
            file, number, group = _line_of(error, line)
            if group is None or not group.is_reported:
                add_fact(error, f"The failing call was issued by {describe_line((file, number))}")
                self._failed = error, group

    def _fail_pending(self, reason: str) -> None:
        """Fail the calls that wait: nothing is received any more."""
        with self._order:
            self._lost = reason
        for _, _, future in self._pending:
            if future is not None and not future.done():
                future.set_exception(self.lost_error(reason))
        self._pending.clear()
        self._released.clear()


def _line_of(error: Exception, line: Line | Lines) -> Line:
    """Return the line of a failed call; of a batch, the line of the call that the error names."""
    if line and isinstance(line[0], str):
        return line
    return line[min(_step_of(error), len(line) - 1)]


def _step_of(error: Exception) -> int:
    """Return the number that the worker reports with an error: of the call in a batch, or of failed calls."""
    said = getattr(error, "syft_step", "")
    return int(said) if said.isdecimal() and len(said) < 18 else 0


def pass_on_releases(worker: BaseWorker) -> None:
    """Have the streams of a worker send the ids that it released."""
    for stream in list(worker._streams.values()):
        if isinstance(stream, PipelinedStream):
            stream.pass_on()
