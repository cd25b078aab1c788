"""WebsocketStream: a stream to a worker behind a websocket, which comes back by itself after a lost connection.

The two ends have a session that outlives connections. Requests are numbered and done in order; the worker says which
one it did last, so whatever was under way when a connection broke is sent again only if it was not done: at most once.
Answers stay at the worker until they were seen here.
"""

from __future__ import annotations

import collections
import secrets
import ssl
import threading
import time
from concurrent.futures import Future
from typing import Any

from syft.config import current
from syft.core.id_provider import ObjectId, is_id
from syft.exceptions import AuthenticationError, NodeLostError, SerdeError, SyftError
from syft.serde import deserialize, serialize
from syft.workers.frames import BYE, HELLO, REQUEST, SEEN, WELCOME
from syft.workers.gathering import GatheringStream
from syft.workers.pipelined import Line
from syft.workers.pipes import Pipe, PipeConnection
from syft.workers.values import is_plain, pointers_in
from syft.workers.websocket_pipe import WebsocketPipe, Where

VERSION = 2
STREAM = "/stream"
# Bytes that were sent and not confirmed before who sends has to wait.
MAX_UNCONFIRMED = 256 << 20
# Answers from this size on are said to have been seen at once; others with the next request.
_LARGE = 1 << 16
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0


class WebsocketStream(GatheringStream):
    """A stream to a worker behind a websocket.

    Args:
        client: the worker that speaks.
        location: the worker that answers.
        where: how it is reached.
    """

    def __init__(self, client: Any, location: Any, where: Where) -> None:
        super().__init__(client, location)
        self._where = where.at(STREAM)
        self._session: tuple[str, bytes] = ("", b"")
        # Requests that may have to be sent again.
        self._unconfirmed: collections.deque[tuple[int, bytes]] = collections.deque()
        self._unconfirmed_bytes = 0
        self._room = threading.Condition(self._order)
        self._seen = self._seen_told = 0
        self._ended = threading.Event()
        self.reconnects = 0
        self.node_id: Any = None
        self._connection: PipeConnection | None = self._connect(current().stream_timeout)[0]
        name = f"syft {client.id} to {location.id}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_replaced(self) -> bool:  # type: ignore[override]
        """Whether the next call to the worker opens another stream: a node comes back, a session does not."""
        return self.is_over

    # --- connections ------------------------------------------------------------------------------------------

    def _connect(self, timeout: float) -> tuple[PipeConnection, int]:
        """Open a connection of the session; returns it, and the last request that was done."""
        connection = PipeConnection(self._dial(timeout), current().max_message_bytes)
        try:
            connection.write(HELLO, self._seen, serialize((VERSION, *self._session)))
            frame = connection.read()
            if frame is None:
                raise ConnectionError("it closed the connection")
            kind, done, contents = frame
            if kind != WELCOME:
                raise SerdeError("It did not say of what session this is.")
            session_id, secret, node_id = _read_welcome(contents)
        except Exception:
            connection.close()
            raise
        if self._session[0] and session_id != self._session[0]:
            connection.close()
            raise SyftError("it was restarted, or this session was away for too long")
        self._session, self.node_id = (session_id, secret), node_id
        connection.before_flush = self.hand_over_gathered
        return connection, done

    def _dial(self, timeout: float) -> Pipe:
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
                self._confirm(frame[1], bool(frame[2]) and len(frame[2]) >= _LARGE)
                self._take_answer(*frame)
        except SerdeError as error:
            return str(error)
        return ""

    def _reconnect(self) -> str:
        """Come back to the session and send what was not done; returns why that can't be, if so."""
        with self._order:
            self._connection.close()  # type: ignore[union-attr]
            self._connection = None
        end = time.monotonic() + current().reconnect_timeout
        pause = _FIRST_PAUSE
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

    def _resume(self, connection: PipeConnection, done: int) -> None:
        with self._order:
            self._drop_confirmed(done)
            self._enqueue_gathered()  # after what was there before, and nowhere else: there is no connection
            for number, request in self._unconfirmed:
                connection.write_soon(REQUEST, number, request)
            self._connection = connection
            self._seen_told = self._seen
            self.reconnects += 1

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
                raise NodeLostError(self.location.id, self._lost)
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
        if self._unconfirmed_bytes > MAX_UNCONFIRMED:
            self._room.wait_for(self._has_room, current().stream_timeout)

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
        """Return what those who wait are told."""
        return NodeLostError(self.location.id, reason)

    def close(self) -> None:
        """Deliver what is left and end the session."""
        if self._closed:
            return
        with self._order:
            self._enqueue_gathered()
            self._closed = True
            connection = self._connection
        if connection is not None:
            connection.write_soon(BYE, 0, b"")
            connection.finish()
        self._ended.wait(current().stream_timeout)
        if connection is not None:
            connection.close()


def _read_welcome(contents: bytearray) -> tuple[str, bytes, Any]:
    parts = deserialize(contents)
    if type(parts) is not tuple or len(parts) != 3:
        raise SerdeError("It did not say of what session this is.")
    session_id, secret, node_id = parts
    if type(session_id) is not str or type(secret) is not bytes or not is_id(node_id):
        raise SerdeError("It did not say of what session this is.")
    return session_id, secret, node_id
