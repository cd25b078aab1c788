"""WebsocketStream: a stream to a worker behind a WebSocket, which reconnects by itself.

Both ends share a session that outlives connections. Requests are numbered and run in order; on reconnection the worker
reports the last one it ran, so each request runs at most once. Responses are kept until the client confirms them.
"""

from __future__ import annotations

import logging
import secrets
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from syft.config import current
from syft.core import metrics
from syft.core.callsite import user_line
from syft.core.id_provider import ObjectId
from syft.exceptions import (
    AuthenticationError,
    NodeLostError,
    SerdeError,
    SessionEndedError,
    SyftError,
    WorkerLostError,
)
from syft.messaging.call_batch import write_ids
from syft.messaging.message import BatchMessage
from syft.serde import serialize
from syft.workers.execution.copies import pointers_in
from syft.workers.transport.batching import CallBatch, encode_call
from syft.workers.transport.framing import BYE, HELLO, NOTICE, REQUEST, SEEN, FramedConnection
from syft.workers.transport.greeting import VERSION, read_notice, read_refusal, read_welcome
from syft.workers.transport.pipe import Bytes, SocketPipe
from syft.workers.transport.pipelined import Line, Lines
from syft.workers.transport.request_codec import write_request
from syft.workers.transport.resend_buffer import ResendBuffer
from syft.workers.transport.suspendable import SuspendableStream
from syft.workers.transport.websocket import Endpoint, WebsocketPipe

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

logger = logging.getLogger("syft.workers")
STREAM = "/stream"
# Unconfirmed bytes from which on the sender has to wait.
MAX_UNCONFIRMED = 256 << 20
# Objects in the vault of the node whose reasons are kept.
_MAX_MOVED = 4096
# Responses of at least this size are confirmed at once, smaller ones with the next request.
_LARGE = 1 << 16
_FIRST_PAUSE, _MAX_PAUSE = 0.05, 2.0


class WebsocketStream(SuspendableStream):
    """A stream to a worker behind a WebSocket, or behind the pipe that `dial` opens within some seconds.

    `check_use` raises an error if the current request may not use the stream.
    """

    gathers = True

    def __init__(
        self,
        client: BaseWorker,
        location: BaseWorker,
        where: Endpoint,
        dial: Callable[[float], SocketPipe | WebsocketPipe] | None = None,
        check_use: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(client, location)
        self._batch = CallBatch(client)
        metrics.gathering.add(self)
        self._where = where.at(STREAM)
        self._dialer = dial
        self._check_use = check_use
        self._session: tuple[str, bytes] = ("", b"")
        # Objects that moved into the vault of the node, with the reason.
        self.moved: dict[ObjectId, str] = {}
        # Requests that may have to be sent again.
        self._unconfirmed = ResendBuffer()
        self._room = threading.Condition(self._order)
        self._seen = self._seen_sent = self.reconnects = 0
        self._ended = threading.Event()
        # The reason, if the node ended the session.
        self._session_end: str | None = None
        self.node_id: Any = None
        self._pipe: SocketPipe | WebsocketPipe | None = None
        self._closed = True  # so that nothing is done at exit if it never was open
        self._connection: FramedConnection | None = self._connect(current().stream_timeout)[0]
        self._closed = False
        self._start(self._run)

    @property
    def is_replaced(self) -> bool:  # type: ignore[override]
        """Whether the next call opens another stream: the session ended, and no error of an earlier call is pending."""
        return self._closed or (self._failed is None and (self.is_over or self._session_end is not None))

    # --- connections ------------------------------------------------------------------------------------------

    def _connect(self, timeout: float) -> tuple[FramedConnection, int]:
        """Open a connection of the session; returns it, and the number of the last request that was done."""
        self._pipe = self._dial(timeout)
        connection = FramedConnection(self._pipe, current().max_message_bytes, gathers=True)
        try:
            purpose = getattr(self.location, "purpose", "")
            hello = (VERSION, *self._session, purpose) if purpose else (VERSION, *self._session)
            connection.write(HELLO, self._seen, serialize(hello))
            frame = connection.read()
            if frame is None:
                raise ConnectionError("it closed the connection")
            kind, done, contents = frame
            session_id, secret, node_id, largest = read_welcome(kind, contents)
        except Exception:
            connection.close()
            raise
        if self._session[0] and session_id != self._session[0]:
            connection.close()
            raise SyftError("it was restarted, or this session was away for too long")
        self._session, self.node_id, self.largest = (session_id, secret), node_id, largest
        connection.before_flush = self.send_batched
        return connection, done

    def _dial(self, timeout: float) -> SocketPipe | WebsocketPipe:
        """Open the pipe of a connection."""
        return WebsocketPipe(self._where, timeout) if self._dialer is None else self._dialer(timeout)

    def _check_open(self) -> None:
        super()._check_open()
        if self._check_use is not None:
            self._check_use()

    def _run(self) -> None:
        """Receive responses, reconnecting as often as needed."""
        reason = ""
        while not reason:
            reason = self._read_all()
            if not reason:
                reason = "it was closed." if self._closed else self._reconnect()
        if self._connection is not None:
            self._connection.close()
        self._fail_pending(reason)
        with self._room:
            self._room.notify_all()
        self._ended.set()

    def _read_all(self) -> str:
        """Receive responses until the connection ends; returns the reason if the stream is over, else an empty text."""
        connection = self._connection
        try:
            while connection is not None and (frame := connection.read()) is not None:
                if frame[0] == NOTICE:
                    self._record_moved(frame[2])
                    continue
                if frame[0] == BYE:
                    self._session_end = read_refusal(frame[2])
                    continue
                self._confirm(frame[1], bool(frame[2]) and len(frame[2]) >= _LARGE)
                self._receive_answer(*frame)
        except SerdeError as error:
            return str(error)
        return self._session_end or ""

    def _record_moved(self, contents: bytearray) -> None:
        """Record which objects moved into the vault of the node, for the reprs of their pointers."""
        self.moved.update(read_notice(contents))
        while len(self.moved) > _MAX_MOVED:
            del self.moved[next(iter(self.moved))]

    def _reconnect(self) -> str:
        """Resume the session over a new connection; returns the reason if that fails, else an empty text."""
        with self._order:
            self._connection.close()  # type: ignore[union-attr]
            self._connection = None
        self._resumed.wait()
        end = time.monotonic() + current().reconnect_timeout
        pause = _FIRST_PAUSE * 2**self._unconfirmed.resends
        if self._unconfirmed.resends:  # it was lost again before any request was done
            self._ended.wait(pause)
        why = "its connection was lost."
        while not self._closed and (left := end - time.monotonic()) > 0:
            try:
                self._resume(*self._connect(left))
                return ""
            except ssl.SSLCertVerificationError:
                return "its certificate is no longer valid."
            except OSError:
                why = f"it can't be reached for {current().reconnect_timeout:g} s."
            except (AuthenticationError, SerdeError, SyftError) as error:
                return f"{error}".rstrip(".") + "."
            # Random, so that clients that lost their connections together do not return together.
            self._ended.wait(min(left, pause * (0.5 + secrets.randbelow(1000) / 1000)))
            pause = min(2 * pause, _MAX_PAUSE)
        return "it was closed." if self._closed else why

    def _resume(self, connection: FramedConnection, done: int) -> None:
        """Send the requests after the last one that was done over a new connection."""
        with self._order:
            self._unconfirmed.confirm(done)
            try:
                self._unconfirmed.count_resend()
            except SyftError:
                connection.close()
                raise
            self._enqueue_batch()  # only into the buffer: there is no connection yet
            for number, request in self._unconfirmed:
                connection.write_soon(REQUEST, number, request)
            self._connection = connection
            self._seen_sent = self._seen
            self.reconnects += 1

    def detach_after_fork(self) -> None:
        """Leave the stream to the process from which this one was forked."""
        super().detach_after_fork()
        self._room = threading.Condition(self._order)
        self._unconfirmed = ResendBuffer()
        self._batch = CallBatch(self.client)
        self._connection = None
        if self._pipe is not None:
            self._pipe.detach_after_fork()

    # --- introductions --------------------------------------------------------------------------------------

    def store(self, obj: object, obj_id: ObjectId, published: bool, claimant: object = None) -> None:
        """Store an object at the worker, after introducing the workers that its pointers lead to."""
        self._introduce([pointer.location for pointer in pointers_in(obj)])
        super().store(obj, obj_id, published, claimant)

    def hand_over(self, obj_id: ObjectId, destination: BaseWorker, new_id: ObjectId, keep_pointer: bool) -> Any:
        """Have the worker send an object on, after introducing the destination."""
        self._introduce([destination])
        return super().hand_over(obj_id, destination, new_id, keep_pointer)

    def _introduce(self, others: list[Any]) -> None:
        """Introduce other workers, if the location supports that; nodes can't introduce each other."""
        meet = getattr(self.location, "meet", None)
        if meet is not None:
            meet(self.client, others)

    # --- requests ---------------------------------------------------------------------------------------------

    def _put(self, request: bytes, line: Line, future: Future[Bytes] | None) -> None:
        with self._room:
            self._await_room()
            if self._lost is not None:
                raise self.lost_error(self._lost)
            self._enqueue_batch()
            self._enqueue(request, line, future)
            connection = self._connection
        # Without the lock, so that the reader can go on. A thread that waits for a response writes by itself.
        if connection is not None and (future is not None or connection.is_crowded):
            connection.flush_quietly()

    def _enqueue(self, request: bytes, line: Line | Lines, future: Future[Bytes] | None) -> None:
        """Number a request, and queue it at the connection if there is one; the caller holds the lock."""
        self._number += 1
        self._pending.append((self._number, line, future))
        self._unconfirmed.add(self._number, request)
        connection = self._connection
        if connection is not None:
            if self._seen > self._seen_sent:
                self._seen_sent = self._seen
                connection.write_soon(SEEN, self._seen, b"")
            connection.write_soon(REQUEST, self._number, request)

    def gather(self, name: str, args: tuple[Any, ...], base: ObjectId) -> object:
        """Batch a call and return its result spec; NotImplemented if it must be sent alone. See `encode_call`."""
        encoded = encode_call(self.location, name, args, base)
        if encoded is None:
            return NotImplemented
        step, spec = encoded
        if self._failed is not None:
            self.raise_failure()
        if self._closed or self.is_suspended:
            self._check_open()
        if self._released:
            step[0] = self._released_bytes()
        line = (*user_line(), None)
        with self._order:
            self._await_room()
            if self._lost is not None:
                raise self.lost_error(self._lost)
            self._batch.add(tuple(step), line)
            is_first, is_full = len(self._batch) == 1, self._batch.is_full
            if is_full:  # before another thread adds to it
                self._enqueue_batch()
        if is_first or is_full:
            self._send_enqueued(is_first)
        return spec

    def _released_bytes(self) -> bytes:
        """Take the released ids for a batched call; ids that it can't carry are sent in a request before it."""
        released = self._released.take()
        written = write_ids(released)
        if written is not None:
            return written
        self._put(write_request(self.client, released, BatchMessage(()), False), ("", 0, None), None)
        return b""

    def _enqueue_batch(self) -> None:
        """Enqueue the batched calls as one request; the caller holds the lock."""
        if self._batch:
            request, lines = self._batch.take()
            metrics.record(self.client.id, self.location.id, len(request), False)
            self._enqueue(request, lines, None)

    def send_batched(self) -> None:
        """Enqueue the batched calls now: messages are being counted."""
        with self._order:
            if self._lost is None:
                self._enqueue_batch()

    def _send_enqueued(self, is_first: bool) -> None:
        """Have queued requests sent, without waiting; after a first call others may be added for a moment."""
        connection = self._connection
        if connection is None:  # the next connection sends what is queued
            return
        if is_first:
            connection.flush_soon()
        elif connection.is_crowded:
            connection.flush_quietly()
        else:
            connection.flush_at_once()

    def _await_room(self) -> None:
        if self._unconfirmed.bytes <= MAX_UNCONFIRMED:
            return
        has_room = self._room.wait_for(
            lambda: self._unconfirmed.bytes <= MAX_UNCONFIRMED or self._lost is not None, current().stream_timeout
        )
        if not has_room:
            raise TimeoutError(
                f"Worker {self.location.id!r} did not accept the requests before this one within "
                f"{current().stream_timeout} s; this one was not sent. "
                "It may be busy; wait longer with syft.config.override(stream_timeout=...)."
            )

    def _confirm(self, number: int, acknowledge: bool) -> None:
        """Confirm the requests up to a number, whose response has arrived."""
        with self._room:
            self._unconfirmed.confirm(number)
            self._seen = max(self._seen, number)
            if acknowledge and self._connection is not None:
                self._seen_sent = self._seen
                self._connection.write_soon(SEEN, self._seen, b"")
            self._room.notify_all()

    def _fail_pending(self, reason: str) -> None:
        super()._fail_pending(reason)
        self._batch.clear()
        self._unconfirmed.clear()

    def lost_error(self, reason: str) -> Exception:
        """Return the error of calls that wait."""
        return SessionEndedError(reason) if self._session_end else NodeLostError(self.location.id, reason)

    def close(self) -> None:
        """Deliver what is queued and end the session."""
        if self._closed:
            return
        failed = self._finish_calls()
        with self._order:
            self._enqueue_batch()
            self._closed = True
            connection = self._connection
        self._resumed.set()
        if connection is not None:
            connection.write_soon(BYE, 0, b"")
            connection.drain(current().stream_timeout)
            if self._pipe is not None:
                self._pipe.finish()
        self._ended.wait(current().stream_timeout)
        if connection is not None:
            connection.close()
        if failed is not None:
            raise failed
        self.raise_failure()

    def _hang_up(self) -> None:
        """Close the connection; the node keeps the session until it is resumed, or has been away for too long."""
        connection = self._connection
        if connection is not None:
            connection.close()

    def _finish_calls(self) -> Exception | None:
        """Wait until all requests are done, and return their error: after the end of a session nothing is received."""
        if self._lost is not None or not (self._pending or self._batch):
            return None
        try:
            if self._connection is None:
                raise self.lost_error("its connection was lost.")
            self.synchronize()
        except (WorkerLostError, SessionEndedError, TimeoutError) as error:
            logger.warning("Calls to %r before the end of the session may not be done: %s", self.location.id, error)
        except Exception as error:
            return error
        return None
