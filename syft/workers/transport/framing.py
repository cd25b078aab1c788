"""FramedConnection: frames over anything that carries bytes in order (a `Pipe`).

A frame is a kind, a number, a length and that many bytes. Frame borders are independent of how the pipe cuts its
bytes: small frames share a piece, and a large one is sent in several, so it needs no memory beyond its own.
"""

from __future__ import annotations

import collections
import struct
import threading
import time
from collections.abc import Callable, Sequence

from syft.core.byte_budget import ByteBudget, Holding
from syft.exceptions import ByteBudgetError, SerdeError
from syft.workers.transport.pipe import SMALL, Bytes, Pipe

Frame = tuple[int, int, bytearray]

# Kinds of frames.
# AFTER: the requests that follow need the orders up to a number, which arrive over another connection.
# HELLO and WELCOME name the session of a connection; SEEN: responses up to a number arrived; BYE: the session ends.
# NOTICE: objects of the client that moved into the vault, with the reason for each.
REQUEST, ANSWER, CONTROL, AFTER, HELLO, WELCOME, SEEN, BYE, NOTICE = range(9)
HEADER = struct.Struct("<BQQ")
# Bytes handed to the pipe at once.
PIECE = 1 << 20
# Bytes that may be queued before the caller should write them itself.
_CROWDED = 64 << 20
# Bytes per second, on average, below which the rest of a frame is given up.
MIN_RATE = 1 << 12
# Seconds that queued frames wait for others, and batched calls wait for more calls.
_GATHER, _GATHER_CALLS = 0.001, 0.005


class ReadDeadline:
    """Time limits for the bytes of one frame: neither a single pause nor the whole may take too long.

    Args:
        pause_timeout: seconds that the peer may pause once a frame has begun; None: any time.
        within: seconds until the whole frame must have arrived; None: it may begin at any time.
    """

    __slots__ = ("_began", "_end", "_pause_timeout", "is_begun")

    def __init__(self, pause_timeout: float | None, within: float | None) -> None:
        self._pause_timeout = pause_timeout
        self._end = None if within is None else time.monotonic() + within
        self._began: float | None = None
        self.is_begun = False

    def left(self, arrived: int) -> float | None:
        """Return the seconds left for the next bytes, given the number of bytes that arrived; None: no limit."""
        if self._end is not None:
            return max(0.0, self._end - time.monotonic())
        if self._pause_timeout is None or not self.is_begun:
            return None
        now = time.monotonic()
        if self._began is None:
            self._began = now
        return max(0.0, min(self._pause_timeout, self._began + self._pause_timeout + arrived / MIN_RATE - now))


class RefusedBody(bytearray):
    """Replaces the contents of a frame that the budget has no room for; they were dropped as they arrived."""

    def __init__(self, error: ByteBudgetError) -> None:
        super().__init__()
        self.error = error


class FramedConnection:
    """Frames over a pipe; one thread reads while others write.

    Args:
        pipe: carries the bytes.
        limit: bytes of the largest frame that is read.
        largest: bytes of the largest frame that is written; None: same as `limit`.
        budget: charged with the bytes of a frame until the next one is read; None: no limit.
        drops_refused: whether a frame without room in the budget is dropped, instead of ending the connection.
        gathers: whether queued frames wait a moment for others, instead of being sent at once if possible.
    """

    def __init__(
        self,
        pipe: Pipe,
        limit: int,
        largest: int | None = None,
        budget: ByteBudget | None = None,
        *,
        drops_refused: bool = False,
        gathers: bool = False,
    ) -> None:
        self._pipe = pipe
        self.limit = limit
        self._largest = largest
        self.budget = budget
        self._drops_refused = drops_refused
        self._gathers = gathers
        self._held = None if budget is None else Holding(budget, evict=self.close)
        self._rest = memoryview(b"")
        self._backlog: collections.deque[Bytes] = collections.deque()
        self._waiting = 0
        self._queued = threading.Condition()
        self._drained = threading.Condition(self._queued._lock)  # type: ignore[attr-defined]
        self._sending = threading.Lock()
        self._writer: threading.Thread | None = None
        self._closed = False
        self._ended = threading.Event()
        self._is_idle = False
        self._flush_requested = False
        # Called by the writer thread before it writes, so that batched calls are queued.
        self.before_flush: Callable[[], None] | None = None
        self.read_bytes = 0
        self.written_bytes = 0

    # --- reading ----------------------------------------------------------------------------------------------

    def read(self, within: float | None = None) -> Frame | None:
        """Read a frame: kind, number, contents. None at the end of the connection, and if the frame takes too long.

        Args:
            within: seconds until all of it must have arrived. By default it may begin at any time; then no pause may
                exceed the pipe's `pause_timeout`, and the average rate must be at least MIN_RATE.

        Returns:
            Contents of type `RefusedBody` if the budget has no room for them and `drops_refused` is set.

        Raises:
            SerdeError: it exceeds the limit, or the room in the budget; nothing more can be read.
        """
        held = self._held
        if held is not None:
            held.release()  # the previous frame was processed
        deadline = ReadDeadline(self.pause_timeout, within)
        header = self._receive(HEADER.size, deadline)
        if header is None:
            return None
        kind, number, length = HEADER.unpack(header)
        self._check_size(length, self.limit)
        if held is not None and length >= SMALL:
            return self._read_large(held, kind, number, length, deadline)
        deadline.is_begun = True
        contents = self._receive(length, deadline)
        return None if contents is None else (kind, number, contents)

    def _read_large(self, held: Holding, kind: int, number: int, length: int, deadline: ReadDeadline) -> Frame | None:
        """Read the contents of a frame once the budget has room for all of it."""
        try:
            held.take(length, within=(self.pause_timeout or 0.0) / 2)
        except ByteBudgetError as error:
            if not self._drops_refused:
                raise SerdeError(str(error)) from None
            deadline.is_begun = True
            return (kind, number, RefusedBody(error)) if self._drop(length, deadline) else None
        held.begin()
        deadline.is_begun = True
        try:
            contents = self._receive(length, deadline)
        finally:
            held.complete()
        if contents is None:
            held.release()
            return None
        return kind, number, contents

    def _drop(self, size: int, deadline: ReadDeadline) -> bool:
        """Receive bytes without keeping them; returns whether all of them arrived."""
        dropped = min(size, len(self._rest))
        self._rest = self._rest[dropped:]
        while dropped < size:
            arrived = self._pipe.recv(deadline.left(dropped))
            if not arrived:
                return False
            self.read_bytes += len(arrived)
            self._rest = memoryview(arrived)[size - dropped :]
            dropped += len(arrived)
        return True

    @property
    def pause_timeout(self) -> float | None:
        """Seconds that the peer may pause in the middle of a frame."""
        return self._pipe.pause_timeout

    def _receive(self, size: int, deadline: ReadDeadline) -> bytearray | None:
        """Receive a number of bytes. Memory is allocated for bytes that arrived, not for those a header announces."""
        received = bytearray(self._rest[:size])
        self._rest = self._rest[size:]
        while (missing := size - len(received)) > 0:
            deadline.is_begun = deadline.is_begun or bool(received)
            arrived = self._pipe.recv(deadline.left(len(received)))
            if not arrived:
                return None
            self.read_bytes += len(arrived)
            if len(arrived) > missing:
                self._rest = memoryview(arrived)[missing:]
                arrived = memoryview(arrived)[:missing]
            received += arrived
        return received

    # --- writing ----------------------------------------------------------------------------------------------

    def write(self, kind: int, number: int, contents: Bytes) -> None:
        """Write a frame and wait until it is sent.

        Raises:
            OSError: the peer is gone.
            SerdeError: it exceeds the limit, so the peer would not read it.
        """
        self.write_pieces(kind, number, [contents])

    def write_pieces(self, kind: int, number: int, pieces: Sequence[Bytes]) -> None:
        """Write a frame whose contents are in several buffers, without joining large ones."""
        self._check_size(sum(map(len, pieces)), self.limit if self._largest is None else self._largest)
        with self._queued:
            self._queue(kind, number, pieces)
        self.flush()

    def _check_size(self, length: int, limit: int) -> None:
        if length > limit:
            raise SerdeError(f"A frame has {length} bytes and the limit (max_message_bytes) is {limit}.")

    def write_soon(self, kind: int, number: int, contents: Bytes) -> None:
        """Write a frame after those before it, without ever waiting: a thread writes the rest."""
        with self._queued:
            self._queue(kind, number, (contents,))
            if self._gathers:
                self._wake_writer()
                return
        self.flush_at_once()
        if self._backlog and not self._closed:
            with self._queued:
                self._wake_writer()

    def flush_soon(self) -> None:
        """Have the writer thread call `before_flush` and write what is queued; never waits."""
        with self._queued:
            self._flush_requested = True
            self._wake_writer()

    def _wake_writer(self) -> None:
        if self._writer is None:
            self._writer = threading.Thread(target=self._write_backlog, name="syft writer", daemon=True)
            self._writer.start()
        if self._is_idle:  # notifying it of each frame would take longer than the frame
            self._is_idle = False
            self._queued.notify()

    @property
    def is_crowded(self) -> bool:
        """Whether the queue is so long that the caller should write it itself."""
        return self._waiting > _CROWDED

    def _queue(self, kind: int, number: int, pieces: Sequence[Bytes]) -> None:
        length = sum(map(len, pieces))
        header = HEADER.pack(kind, number, length)
        if len(pieces) == 1 and length < SMALL:
            self._backlog.append(header + pieces[0])
        else:
            self._backlog.append(header)
            self._backlog.extend(pieces)
        self._waiting += len(header) + length

    def _write_backlog(self) -> None:
        while True:
            with self._queued:
                while not self._backlog and not self._flush_requested and not self._closed:
                    self._is_idle = True
                    self._queued.wait()
                self._is_idle = False
                pause = (_GATHER if self._backlog else _GATHER_CALLS) if self._gathers else 0.0
            if self._ended.wait(pause):  # more may be queued; a caller that waits for a response writes by itself
                return
            self._flush_requested = False
            if self.before_flush is not None:
                self.before_flush()
            self.flush_quietly()

    def flush_quietly(self) -> None:
        """Write what is queued; if the peer is gone, the reader of the connection reports that."""
        try:
            self.flush()
        except OSError:
            self.close()

    def flush_at_once(self) -> None:
        """Write what can be written without waiting; the writer thread writes the rest."""
        if not self._sending.acquire(blocking=False):
            return
        try:
            while self._backlog:
                data = self._next_block()
                sent = self._pipe.send_some(data)
                if sent < len(data):
                    self._backlog.appendleft(data[sent:])
                self._count_written(sent)
                if sent < len(data):
                    return
        except ConnectionError:  # the reader may still receive what the peer sent before it went
            self._discard_backlog()
        except OSError:
            self.close()
        finally:
            self._sending.release()

    def _discard_backlog(self) -> None:
        with self._queued:
            self._backlog.clear()
            self._waiting = 0
            self._drained.notify_all()

    def flush(self) -> None:
        """Write what is queued, in pieces that small frames share."""
        with self._sending:
            while self._backlog:
                data = self._next_block()
                for start in range(0, len(data), PIECE):
                    self._pipe.send(data[start : start + PIECE])
                self._count_written(len(data))

    def _count_written(self, size: int) -> None:
        with self._queued:
            self._waiting -= size
            if not self._waiting:
                self._drained.notify_all()
        self.written_bytes += size

    def _next_block(self) -> memoryview:
        """Take the next bytes from the queue, small frames joined; the caller holds the sending lock."""
        first = self._backlog.popleft()
        if len(first) >= SMALL or not self._backlog:
            return memoryview(first)
        block = [first]
        size = len(first)
        while self._backlog and size + len(self._backlog[0]) <= PIECE:
            block.append(self._backlog.popleft())
            size += len(block[-1])
        return memoryview(b"".join(block))

    def drain(self, timeout: float) -> None:
        """Wait until everything queued is written; for a limited number of seconds."""
        with self._queued:
            if self._backlog:
                self._wake_writer()
            self._drained.wait_for(lambda: not self._waiting or self._closed, timeout)

    # --- the end ----------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Return the last frame's bytes to the budget; called by the reading thread when it has ended."""
        if self._held is not None:
            self._held.release(for_good=True)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed here."""
        return self._closed

    def close(self) -> None:
        """Close the connection; pending reads and writes end."""
        self._closed = True
        self._ended.set()
        self._pipe.close()
        with self._queued:
            self._queued.notify_all()
            self._drained.notify_all()
