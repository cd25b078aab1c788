"""RayStream: a stream over the calls of a Ray actor.

A call carries many small requests, or a large one. Few calls run at once; requests written meanwhile are sent with
the next one. Ray receives bytes only: small messages joined, and large ones unchanged, for its shared memory.
"""

from __future__ import annotations

import collections
import contextlib
import os
import struct
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import numpy as np

from syft.config import current
from syft.core.id_provider import ObjectId
from syft.core.labels import tags_of
from syft.core.references import TensorMeta
from syft.exceptions import SerdeError, SyftError, WorkerLostError
from syft.workers.ray.cluster import connection, explain, package
from syft.workers.transport.framing import AFTER, ANSWER, HEADER, REQUEST
from syft.workers.transport.pipe import Bytes
from syft.workers.transport.pipelined import Line, PipelinedStream

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

# Concurrent calls: one that is being processed, and one that is queued at the actor.
WINDOW = 2
# Bytes of small messages in one call: the limit below which Ray does not use its shared memory.
_TOGETHER = 90_000
# Messages of at least this size are passed to Ray unchanged.
_LARGE = 1 << 16
# Queued bytes from which on the sender has to wait.
_WAITING = 64 << 20
# Seconds until the first response of an actor, which has to start and to import this library.
STARTUP_SECONDS = 120.0
KEY_BYTES = 16
_ELSEWHERE = 0x80

Frame = tuple[int, int, Any]


def pack(frames: Iterable[Frame]) -> tuple[bytes, list[Any]]:
    """Join frames (kind, number, contents); large contents are not copied."""
    pieces: list[Any] = []
    large = []
    for kind, number, contents in frames:
        if len(contents) < _LARGE:
            pieces += (HEADER.pack(kind, number, len(contents)), contents)
        else:
            pieces.append(HEADER.pack(kind | _ELSEWHERE, number, len(contents)))
            large.append(np.frombuffer(contents, dtype=np.uint8))
    return b"".join(pieces), large


def unpack(head: Bytes, large: Sequence[Any]) -> Iterator[Frame]:
    """Split joined frames; contents are read-only views."""
    view = memoryview(head)
    apart = iter(large)
    position = 0
    while position < len(view):
        try:
            kind, number, length = HEADER.unpack_from(view, position)
        except struct.error:
            raise SerdeError("The frames sent to an actor are truncated.") from None
        position += HEADER.size
        if kind & _ELSEWHERE:
            contents = memoryview(next(apart, b"")).toreadonly()
        else:
            contents = view[position : position + length]
            position += length
        if len(contents) != length:
            raise SerdeError("The frames sent to an actor are truncated.")
        yield kind & ~_ELSEWHERE, number, contents


class RayStream(PipelinedStream):
    """A stream to a worker in a Ray actor.

    `mine` is the handle of the client's own actor, if it is in one; the session ends with it.
    """

    def __init__(self, client: BaseWorker, location: BaseWorker, host: Any, mine: Any = None) -> None:
        super().__init__(client, location)
        self._ray = package()
        self._connected = connection()
        self._host = host
        self._key = os.urandom(KEY_BYTES)
        self.calls = 0
        # Orders of the worker's maker that precede what was written so far.
        self._orders = 0
        self._news = threading.Condition(self._order)
        # (number, request, whether a caller waits for the response) of requests that are in no call yet
        self._waiting: collections.deque[tuple[int, bytes, bool]] = collections.deque()
        self._waiting_bytes = 0
        # (reference of the call, number of its last request) of the running calls
        self._underway: collections.deque[tuple[Any, int]] = collections.deque()
        self._broken = ""
        self._open(mine)
        self._start(self._run)

    def _open(self, mine: Any) -> None:
        try:
            self._ray.get(self._host.open.remote(self._key, self.client.id, mine), timeout=STARTUP_SECONDS)
        except TimeoutError:
            raise WorkerLostError(self.location.id, self.location.why_lost()) from None
        except Exception as error:
            raise WorkerLostError(self.location.id, explain(error)) from None

    def detach_after_fork(self) -> None:
        """Leave the stream to the process from which this one was forked."""
        super().detach_after_fork()
        self._news = threading.Condition(self._order)

    # --- requests ---------------------------------------------------------------------------------------------

    def _put(self, request: bytes, line: Line, future: Future[Bytes] | None) -> None:
        with self._news:
            if self._waiting_bytes > _WAITING and not self._news.wait_for(self._has_room, current().stream_timeout):
                raise TimeoutError(
                    f"Worker {self.location.id!r} did not accept the requests before this one within "
                    f"{current().stream_timeout} s. It may be busy; send less at once, or wait longer with "
                    "syft.config.override(stream_timeout=...)."
                )
            if self._lost is not None:
                raise self.lost_error(self._lost)
            self._number += 1
            self._pending.append((self._number, line, future))
            self._waiting.append((self._number, request, future is not None))
            self._waiting_bytes += len(request)
            if len(self._underway) < WINDOW and not self._broken:
                self._call()

    def _has_room(self) -> bool:
        return self._waiting_bytes <= _WAITING or self._lost is not None

    def _call(self) -> None:
        """Make a call with queued requests, as many as fit."""
        frames: list[Frame] = []
        orders = getattr(self.location, "orders_given", 0)
        if orders > self._orders:
            self._orders = orders
            frames.append((AFTER, orders, b""))
        size = last = 0
        while self._waiting and (not size or size + len(self._waiting[0][1]) <= _TOGETHER):
            last, request, waits = self._waiting.popleft()
            frames.append((REQUEST, last, request))
            size += len(request)
            if waits:  # its response must not wait for later requests
                break
        self._waiting_bytes -= size
        try:
            if self._connected != connection():  # Ray would wait for ever
                raise SyftError("Ray was shut down.")
            head, large = pack(frames)
            self.calls += 1
            self._underway.append((self._host.deliver.remote(self._key, self.calls, head, *large), last))
        except Exception as error:  # the reader reports it
            self._broken = explain(error)
        self._news.notify_all()

    # --- answers ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Process the results of calls, in order, and make further calls."""
        reason = ""
        while not reason:
            with self._news:
                self._news.wait_for(lambda: self._underway or self._broken or self._closed)
                if not self._underway:
                    reason = self._broken or "it was closed."
                    break
                call, last = self._underway[0]
            reason = self._take(call, last)
            del call  # releases the memory of its responses
            with self._news:
                self._underway.popleft()
                if self._waiting and not reason and not self._broken:
                    self._call()
                self._news.notify_all()
        self._fail_pending(reason)
        with self._news:
            self._waiting.clear()
            self._underway.clear()
            self._news.notify_all()

    def _take(self, call: object, last: int) -> str:
        """Process the responses of a call; returns the reason if the stream is over, else an empty text."""
        try:
            found = self._ray.get(call)
            head, *large = found if type(found) is tuple else (found,)
            for frame in unpack(head, large):
                self._receive_answer(*frame)
            self._receive_answer(ANSWER, last, b"")  # all requests of the call are done
        except SerdeError as error:
            return str(error)
        except Exception as error:
            return explain(error)
        return ""

    def close(self) -> None:
        """Deliver what is queued and end the session."""
        if self._closed:
            return
        with self._news:
            self._closed = True
            self._news.notify_all()
        self._thread.join(timeout=current().stream_timeout)
        if self._connected == connection():
            with contextlib.suppress(Exception):  # the session is gone with the actor
                self._ray.get(self._host.close.remote(self._key), timeout=current().stream_timeout)
        self.raise_failure()

    # --- moves ------------------------------------------------------------------------------------------------

    def hand_over(self, obj_id: ObjectId, destination: Any, new_id: ObjectId, keep_pointer: bool) -> Any:
        """Have the worker send an object on; if it can't reach the destination, this process forwards it."""
        if self.location.reaches(destination):
            return super().hand_over(obj_id, destination, new_id, keep_pointer)
        if keep_pointer:
            raise SyftError(
                f"Worker {self.location.id!r} is on another machine of the cluster and does not reach "
                f"{destination.id!r}, so it can't hold a pointer there. Use .move({destination.id}) instead."
            )
        obj = self.fetch(obj_id)
        try:
            pointer = self.client.send_object(obj, destination, new_id, bool(tags_of(obj)))
            pointer.lease.owned = False  # the claim belongs to the pointer that the move returns
            pointer.lease.stream.barrier()
        except Exception:
            self.store(obj, obj_id, bool(tags_of(obj)))
            raise
        return TensorMeta.of_copy(obj)
