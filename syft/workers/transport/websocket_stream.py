"""WebsocketStream: a stream to a worker behind a websocket, which comes back by itself after a lost connection.

The two ends have a session that outlives connections. Requests are numbered and done in order; the worker says which
one it did last, so whatever was under way when a connection broke is sent again only if it was not done: at most once.
Answers stay at the worker until they were seen here.
"""

from __future__ import annotations

import collections
import logging
import secrets
import ssl
import threading
import time
from concurrent.futures import Future
from typing import Any

from syft.config import current
from syft.core.id_provider import ObjectId, is_id
from syft.core.labels import printable
from syft.exceptions import (
    AuthenticationError,
    NodeLostError,
    SerdeError,
    SessionEndedError,
    SyftError,
    WorkerLostError,
)
from syft.serde import deserialize, serialize
from syft.workers.execution.copies import is_plain, pointers_in
from syft.workers.transport.batching import BatchingStream
from syft.workers.transport.framing import BYE, HELLO, NOTICE, REQUEST, SEEN, WELCOME, FramedConnection
from syft.workers.transport.pipe import ClientPipe
from syft.workers.transport.pipelined import Line
from syft.workers.transport.websocket import Endpoint, WebsocketPipe

logger = logging.getLogger("syft.workers")
# The version of what is said over a stream: both ends must speak the same.
VERSION = 3
STREAM = "/stream"
# Bytes that were sent and not confirmed before who sends has to wait.
MAX_UNCONFIRMED = 256 << 20
# Objects in the vault of a node whose reasons are kept.
_MOST_MOVED = 4096
# Characters of a refusal that are shown.
MAX_REFUSAL = 1000
# Answers from this size on are said to have been seen at once; others with the next request.
_LARGE = 1 << 16
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
# How often a request is sent again: one whose every connection breaks is what breaks them.
MOST_RESENDS = 3


class WebsocketStream(BatchingStream):
    """A stream to a worker behind a websocket.

    Args:
        client: the worker that speaks.
        location: the worker that answers.
        where: how it is reached.
    """

    def __init__(self, client: Any, location: Any, where: Endpoint) -> None:
        super().__init__(client, location)
        self._where = where.at(STREAM)
        self._session: tuple[str, bytes] = ("", b"")
        # Objects that moved into the vault of the node, and why.
        self.moved: dict[ObjectId, str] = {}
        # Requests that may have to be sent again.
        self._unconfirmed: collections.deque[tuple[int, bytes]] = collections.deque()
        self._unconfirmed_bytes = 0
        self._room = threading.Condition(self._order)
        self._seen = self._seen_told = 0
        # The first request that was not done, and how often it was sent again.
        self._resent: tuple[int, int] = (0, 0)
        self._ended = threading.Event()
        # Why the node ended the session, if it did.
        self._session_end: str | None = None
        self.reconnects = 0
        self.node_id: Any = None
        self._pipe: ClientPipe | None = None
        self._connection: FramedConnection | None = self._connect(current().stream_timeout)[0]
        name = f"syft {client.id} to {location.id}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_replaced(self) -> bool:  # type: ignore[override]
        """Whether the next call to the worker opens another stream: a node comes back, a session does not.

        The error of a call that nobody waited for is raised by this stream first.
        """
        return self._closed or (self._failed is None and (self.is_over or self._session_end is not None))

    # --- connections ------------------------------------------------------------------------------------------

    def _connect(self, timeout: float) -> tuple[FramedConnection, int]:
        """Open a connection of the session; returns it, and the last request that was done."""
        self._pipe = self._dial(timeout)
        connection = FramedConnection(self._pipe, current().max_message_bytes, gathers=True)
        try:
            purpose = getattr(self.location, "purpose", "")
            told = (VERSION, *self._session, purpose) if purpose else (VERSION, *self._session)
            connection.write(HELLO, self._seen, serialize(told))
            frame = connection.read()
            if frame is None:
                raise ConnectionError("it closed the connection")
            kind, done, contents = frame
            session_id, secret, node_id, largest = _read_welcome(kind, contents)
        except Exception:
            connection.close()
            raise
        if self._session[0] and session_id != self._session[0]:
            connection.close()
            raise SyftError("it was restarted, or this session was away for too long")
        self._session, self.node_id, self.largest = (session_id, secret), node_id, largest
        connection.before_flush = self.hand_over_gathered
        return connection, done

    def _dial(self, timeout: float) -> ClientPipe:
        """Open what carries the bytes."""
        return WebsocketPipe(self._where, timeout)

    def _run(self) -> None:
        """Take answers, over as many connections as it takes."""
        reason = ""
        while not reason:
            reason = self._read_all()
            if not reason:
                reason = "it was closed." if self._closed else self._reconnect()
        if self._connection is not None:
            self._connection.close()
        self._give_up(reason)
        with self._room:
            self._room.notify_all()
        self._ended.set()

    def _read_all(self) -> str:
        """Take answers until the connection ends; returns why nothing may follow, if that is so."""
        connection = self._connection
        try:
            while connection is not None and (frame := connection.read()) is not None:
                if frame[0] == NOTICE:
                    self._note_moved(frame[2])
                    continue
                if frame[0] == BYE:
                    self._session_end = printable(bytes(frame[2][:MAX_REFUSAL]).decode("utf-8", "replace"))
                    continue
                self._confirm(frame[1], bool(frame[2]) and len(frame[2]) >= _LARGE)
                self._take_answer(*frame)
        except SerdeError as error:
            return str(error)
        return self._session_end or ""

    def _note_moved(self, contents: bytearray) -> None:
        """Note which objects are in the vault of the node from now on, for the reprs of their pointers."""
        rows = deserialize(contents)
        if type(rows) is tuple:
            for row in rows:
                if type(row) is tuple and len(row) == 2 and is_id(row[0]) and type(row[1]) is str:
                    self.moved[row[0]] = printable(row[1][:300])
        while len(self.moved) > _MOST_MOVED:
            del self.moved[next(iter(self.moved))]

    def _reconnect(self) -> str:
        """Come back to the session and send what was not done; returns why that can't be, if so."""
        with self._order:
            self._connection.close()  # type: ignore[union-attr]
            self._connection = None
        end = time.monotonic() + current().reconnect_timeout
        pause = _FIRST_PAUSE * 2 ** self._resent[1]
        if self._resent[1]:  # it was lost again before anything was done
            self._ended.wait(pause)
        why = "its connection was lost."
        while not self._closed and (left := end - time.monotonic()) > 0:
            try:
                self._resume(*self._connect(left))
                return ""
            except ssl.SSLCertVerificationError:
                return "its certificate is not good any more."
            except OSError:
                why = f"it can't be reached for {current().reconnect_timeout:g} s."
            except (AuthenticationError, SerdeError, SyftError) as error:
                return f"{error}".rstrip(".") + "."
            # Who lost the connection together must not come back together.
            self._ended.wait(min(left, pause * (0.5 + secrets.randbelow(1000) / 1000)))
            pause = min(2 * pause, _LONGEST_PAUSE)
        return "it was closed." if self._closed else why

    def _resume(self, connection: FramedConnection, done: int) -> None:
        with self._order:
            self._drop_confirmed(done)
            self._count_resends(connection)
            self._enqueue_gathered()  # after what was there before, and nowhere else: there is no connection
            for number, request in self._unconfirmed:
                connection.write_soon(REQUEST, number, request)
            self._connection = connection
            self._seen_told = self._seen
            self.reconnects += 1

    def _count_resends(self, connection: FramedConnection) -> None:
        """Give up if the first request that was not done was sent often enough; the caller holds the lock."""
        first = self._unconfirmed[0][0] if self._unconfirmed else 0
        count = self._resent[1] + 1 if first and first == self._resent[0] else int(bool(first))
        self._resent = (first, count)
        if count > MOST_RESENDS:
            connection.close()
            raise SyftError(
                f"a request of {len(self._unconfirmed[0][1])} bytes was sent to it over {count} connections, and each "
                "was lost before it was done. The line may be too bad for so much at once: send less in one message"
            )

    def abandon(self) -> None:
        """Leave the stream to the process from which this one was forked."""
        super().abandon()
        self._room = threading.Condition(self._order)
        self._unconfirmed = collections.deque()
        self._connection = None
        if self._pipe is not None:
            self._pipe.abandon()

    # --- where others take part -------------------------------------------------------------------------------

    def store(self, obj: Any, obj_id: ObjectId, published: bool, claimant: Any = None) -> None:
        """Have the worker keep an object, after it got to know those that pointers in it lead to."""
        if not is_plain(obj):
            self._introduce([pointer.location for pointer in pointers_in(obj)])
        super().store(obj, obj_id, published, claimant)

    def hand_over(self, obj_id: ObjectId, destination: Any, new_id: ObjectId, keep_pointer: bool) -> Any:
        """Have the worker send an object on, after it got to know where to."""
        self._introduce([destination])
        return super().hand_over(obj_id, destination, new_id, keep_pointer)

    def _introduce(self, others: list[Any]) -> None:
        """Make others known to the worker, where it is a client that speaks; nodes can't introduce each other."""
        meet = getattr(self.location, "meet", None)
        if meet is not None:
            meet(self.client, others)

    # --- requests ---------------------------------------------------------------------------------------------

    def _put(self, request: bytes, line: Line, future: Future[Any] | None) -> None:
        with self._room:
            self._await_room()
            if self._lost is not None:
                raise self.lost_error(self._lost)
            self._enqueue_gathered()
            self._enqueue(request, line, future)
            connection = self._connection
        # Not while others wait for the lock: who reads must go on. A thread that waits for an answer writes by itself.
        if connection is not None and (future is not None or connection.is_crowded):
            connection.flush_quietly()

    def _enqueue(self, request: bytes, line: Any, future: Future[Any] | None) -> None:
        """Number a request, and hand it to the connection if there is one; the caller holds the lock."""
        self._number += 1
        self._pending.append((self._number, line, future))
        self._unconfirmed.append((self._number, request))
        self._unconfirmed_bytes += len(request)
        connection = self._connection
        if connection is not None:
            if self._seen > self._seen_told:
                self._seen_told = self._seen
                connection.write_soon(SEEN, self._seen, b"")
            connection.write_soon(REQUEST, self._number, request)

    def _send_enqueued(self, is_first: bool) -> None:
        connection = self._connection
        if connection is None:  # what is waiting goes with the next one
            return
        if is_first:
            connection.flush_soon()
        elif connection.is_crowded:
            connection.flush_quietly()
        else:
            connection.flush_at_once()

    def _await_room(self) -> None:
        if self._unconfirmed_bytes <= MAX_UNCONFIRMED:
            return
        if not self._room.wait_for(self._has_room, current().stream_timeout):
            raise TimeoutError(
                f"Worker {self.location.id!r} did not take what was sent within {current().stream_timeout} s; this was "
                "not sent. It may be busy; wait longer with syft.config.override(stream_timeout=...)."
            )

    def _has_room(self) -> bool:
        return self._unconfirmed_bytes <= MAX_UNCONFIRMED or self._lost is not None

    def _confirm(self, number: int, tell: bool) -> None:
        """Note that the worker did requests up to a number, and that its answer is here."""
        with self._room:
            self._drop_confirmed(number)
            self._seen = max(self._seen, number)
            if tell and self._connection is not None:
                self._seen_told = self._seen
                self._connection.write_soon(SEEN, self._seen, b"")
            self._room.notify_all()

    def _drop_confirmed(self, number: int) -> None:
        while self._unconfirmed and self._unconfirmed[0][0] <= number:
            self._unconfirmed_bytes -= len(self._unconfirmed.popleft()[1])

    def _give_up(self, reason: str) -> None:
        super()._give_up(reason)
        self._steps.clear()
        self._lines.clear()
        self._unconfirmed.clear()
        self._unconfirmed_bytes = 0

    def lost_error(self, reason: str) -> Exception:
        """Return the error of calls that wait."""
        return SessionEndedError(reason) if self._session_end else NodeLostError(self.location.id, reason)

    def close(self) -> None:
        """Deliver what is left and end the session."""
        if self._closed:
            return
        failed = self._finish_calls()
        with self._order:
            self._enqueue_gathered()
            self._closed = True
            connection = self._connection
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

    def _finish_calls(self) -> Exception | None:
        """Wait until what was sent is done, and return what went wrong: once a session ends, nothing comes back."""
        if self._lost is not None or not (self._pending or self._steps):
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


def _read_welcome(kind: int, contents: bytearray) -> tuple[str, bytes, Any, int]:
    """Read what a worker says first: of what session this is, its own name, and the largest message that it reads."""
    if kind == BYE and contents:
        raise SyftError(printable(bytes(contents[:MAX_REFUSAL]).decode("utf-8", "replace")))
    parts = deserialize(contents) if kind == WELCOME else None
    if type(parts) is tuple and parts and type(parts[0]) is int and parts[0] != VERSION:
        raise SyftError(versions_differ(VERSION, parts[0]))
    if type(parts) is not tuple or list(map(type, parts[:3])) != [int, str, bytes] or len(parts) != 5:
        raise SerdeError("It did not say of what session this is.")
    _, session_id, secret, node_id, largest = parts
    if not is_id(node_id) or type(largest) is not int or largest < 0:
        raise SerdeError("It did not say of what session this is.")
    return session_id, secret, node_id, largest


def versions_differ(ours: object, theirs: object) -> str:
    """Say that a client and a worker do not speak the same version of the stream, and who is to change that.

    Args:
        ours: what the client speaks.
        theirs: what the worker speaks.
    """
    older = "here" if type(ours) is int and type(theirs) is int and ours < theirs else "at the worker"
    return (
        f"This client speaks version {ours!r} of the stream and the worker version {theirs!r}; "
        f"upgrade resyft {older} (pip install --upgrade resyft)."
    )
