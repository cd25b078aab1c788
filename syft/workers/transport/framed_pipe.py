"""PipeConnection: frames over anything that carries bytes in order, such as a websocket.

Frames are those of `frames.py`. Where a frame begins has nothing to do with where the pipe cuts its bytes: small frames
share a piece, and a large one goes in many, so that it needs no memory beyond its own at either end.
"""

from __future__ import annotations

import collections
import struct
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from syft.core.byte_budget import ByteBudget, Holding
from syft.exceptions import ByteBudgetError, SerdeError

HEADER = struct.Struct("<BQQ")
# Bytes that are handed to the pipe at once.
PIECE = 1 << 20
# Bytes that may wait to be written before who writes has to wait.
_WAITING = 64 << 20
# Bytes a second, on the whole, at which a frame that was begun must go on.
LEAST_RATE = 1 << 12
# Seconds that small frames wait for others to go with, and calls that were gathered: they go when they are many.
_GATHER, _GATHER_CALLS = 0.001, 0.005
# Below this a frame is put together with its neighbours, and needs no room in the budget of its sender.
_SMALL = 1 << 16


class Pipe(Protocol):
    """What carries bytes.

    Attributes:
        patience: seconds that the other end may pause in the middle of a frame; None: it finds out by itself whether
            the other end is there, and waits as long as that is so.
    """

    patience: float | None

    def recv(self, within: float | None = None) -> bytes:
        """Return bytes that arrived, waiting for them; nothing at the end, or if none come within so many seconds."""
        ...

    def send(self, data: Any) -> None:
        """Send bytes, waiting until there is room for them; OSError when the other end is gone."""
        ...

    def has_room(self) -> bool:
        """Say whether some bytes can be sent now without waiting."""
        ...

    def finish(self) -> None:
        """Say that nothing follows."""
        ...

    def close(self) -> None:
        """Close, whoever reads or writes meanwhile."""
        ...


class _ReadDeadline:
    """How long the next bytes of a frame may take: who began it may pause, but neither for long nor all the time."""

    __slots__ = ("_began", "_end", "_patience", "is_begun")

    def __init__(self, patience: float | None, within: float | None) -> None:
        self._patience = patience
        self._end = None if within is None else time.monotonic() + within
        self._began: float | None = None
        self.is_begun = False

    def left(self, arrived: int) -> float | None:
        """Return how many seconds are left for the next bytes, after so many; None: as many as it takes."""
        if self._end is not None:
            return max(0.0, self._end - time.monotonic())
        if self._patience is None or not self.is_begun:
            return None
        now = time.monotonic()
        if self._began is None:
            self._began = now
        return max(0.0, min(self._patience, self._began + self._patience + arrived / LEAST_RATE - now))


class ClientPipe(Pipe, Protocol):
    """What carries bytes for the side that connects."""

    def abandon(self) -> None:
        """Close it in this process only: the one from which it was forked goes on with it."""
        ...


class RefusedBody(bytearray):
    """Stands for the contents of a frame that there was no room for; they were dropped as they arrived.

    Args:
        error: the reason.
    """

    def __init__(self, error: ByteBudgetError) -> None:
        super().__init__()
        self.error = error


class PipeConnection:
    """Frames over a pipe.

    Args:
        pipe: what carries the bytes.
        limit: the largest frame that is read.
        budget: the budget that a frame takes its bytes from until the next one is read; None: there is no limit.
    """

    def __init__(self, pipe: Pipe, limit: int, budget: ByteBudget | None = None) -> None:
        self._pipe = pipe
        self.limit = limit
        self.budget = budget
        self._held = None if budget is None else Holding(budget, evict=self.close)
        self._rest = memoryview(b"")
        self._backlog: collections.deque[Any] = collections.deque()
        self._waiting = 0
        self._news = threading.Condition()
        self._sending = threading.Lock()
        self._writer: threading.Thread | None = None
        self._closed = False
        self._ended = threading.Event()
        self._is_idle = False
        self._asked = False
        # What is called before the thread writes: who has gathered something hands it over.
        self.before_flush: Callable[[], None] | None = None
        self.read_bytes = 0
        self.written_bytes = 0

    # --- reading ----------------------------------------------------------------------------------------------

    def read(self, within: float | None = None) -> tuple[int, int, Any] | None:
        """Read a frame: kind, number, contents. None at the end, however it came, and if the frame takes too long.

        Args:
            within: seconds until all of it must be there. Without, it may begin at any time, and then must go on: no
                pause is longer than the pipe's patience, and altogether it is no slower than LEAST_RATE.

        Returns:
            Contents of type `RefusedBody` if the budget has no room for them.
        """
        held = self._held
        if held is not None:
            held.release()  # the frame before was dealt with
        pace = _ReadDeadline(self.patience, within)
        header = self._take(HEADER.size, pace)
        if header is None:
            return None
        kind, number, length = HEADER.unpack(header)
        if length > self.limit:
            raise SerdeError(f"A frame has {length} bytes and the limit (max_message_bytes) is {self.limit}.")
        if held is not None and length >= _SMALL:
            return self._read_large(held, kind, number, length, pace)
        pace.is_begun = True
        contents = self._take(length, pace)
        return None if contents is None else (kind, number, contents)

    def _read_large(
        self, held: Holding, kind: int, number: int, length: int, pace: _ReadDeadline
    ) -> tuple[int, int, Any] | None:
        """Read the contents of a frame once there is room for all of it; a frame without room is dropped."""
        try:
            held.take(length, within=(self.patience or 0.0) / 2)
        except ByteBudgetError as error:
            pace.is_begun = True
            return (kind, number, RefusedBody(error)) if self._drop(length, pace) else None
        held.begin()
        pace.is_begun = True
        try:
            contents = self._take(length, pace)
        finally:
            held.complete()
        if contents is None:
            held.release()
            return None
        return kind, number, contents

    def _drop(self, size: int, pace: _ReadDeadline) -> bool:
        """Receive bytes without keeping them; says whether all of them came."""
        taken = min(size, len(self._rest))
        self._rest = self._rest[taken:]
        while taken < size:
            arrived = self._pipe.recv(pace.left(taken))
            if not arrived:
                return False
            self.read_bytes += len(arrived)
            self._rest = memoryview(arrived)[size - taken :]
            taken += len(arrived)
        return True

    @property
    def patience(self) -> float | None:
        """Seconds that the other end may pause in the middle of a frame."""
        return self._pipe.patience

    def _take(self, size: int, pace: _ReadDeadline) -> bytearray | None:
        """Take so many bytes; memory is taken for what has arrived, not for what a header promises."""
        taken = bytearray(self._rest[:size])
        self._rest = self._rest[size:]
        while (missing := size - len(taken)) > 0:
            pace.is_begun = pace.is_begun or bool(taken)
            arrived: Any = self._pipe.recv(pace.left(len(taken)))
            if not arrived:
                return None
            self.read_bytes += len(arrived)
            if len(arrived) > missing:
                self._rest = memoryview(arrived)[missing:]
                arrived = memoryview(arrived)[:missing]
            taken += arrived
        return taken

    # --- writing ----------------------------------------------------------------------------------------------

    def write(self, kind: int, number: int, contents: Any) -> None:
        """Write a frame and wait until it is on its way.

        Raises:
            OSError: the other end is gone.
            SerdeError: it is larger than what is read here, and so at the other end.
        """
        if len(contents) > self.limit:
            raise SerdeError(f"A frame has {len(contents)} bytes and the limit (max_message_bytes) is {self.limit}.")
        with self._news:
            self._queue(kind, number, contents)
        self.flush()

    def write_soon(self, kind: int, number: int, contents: Any) -> None:
        """Write a frame after those before it, by a thread; never waits."""
        with self._news:
            self._queue(kind, number, contents)
            self._wake_writer()

    def flush_soon(self) -> None:
        """Have the thread ask for what was gathered elsewhere (`before_flush`), and write it; never waits."""
        with self._news:
            self._asked = True
            self._wake_writer()

    def _wake_writer(self) -> None:
        if self._writer is None:
            self._writer = threading.Thread(target=self._write_backlog, name="syft writer", daemon=True)
            self._writer.start()
        if self._is_idle:  # waking it up for each frame would take longer than the frame
            self._is_idle = False
            self._news.notify()

    @property
    def is_crowded(self) -> bool:
        """Whether so much is waiting to be written that who writes should do so itself."""
        return self._waiting > _WAITING

    def _queue(self, kind: int, number: int, contents: Any) -> None:
        header = HEADER.pack(kind, number, len(contents))
        if len(contents) < _SMALL:
            self._backlog.append(header + contents)
        else:
            self._backlog.append(header)
            self._backlog.append(contents)
        self._waiting += len(header) + len(contents)

    def _write_backlog(self) -> None:
        while True:
            with self._news:
                while not self._backlog and not self._asked and not self._closed:
                    self._is_idle = True
                    self._news.wait()
                self._is_idle = False
                pause = _GATHER if self._backlog else _GATHER_CALLS
            if self._ended.wait(pause):  # until more has gathered; who waits for an answer writes by itself
                return
            self._asked = False
            if self.before_flush is not None:
                self.before_flush()
            self.flush_quietly()

    def flush_quietly(self) -> None:
        """Write what is waiting; who reads from the connection finds out when the other end is gone."""
        try:
            self.flush()
        except OSError:
            self.close()

    def flush_at_once(self) -> None:
        """Write what is waiting if that takes no waiting; otherwise the thread does, a moment later."""
        if self._waiting > _SMALL or not self._sending.acquire(blocking=False):
            return
        try:
            if self._pipe.has_room():
                self._write_all()
        except OSError:
            self.close()
        finally:
            self._sending.release()

    def flush(self) -> None:
        """Write what is waiting, in pieces that small frames share."""
        with self._sending:
            self._write_all()

    def _write_all(self) -> None:
        while self._backlog:
            data = self._gather()
            for start in range(0, len(data), PIECE):
                self._pipe.send(data[start : start + PIECE])
            with self._news:
                self._waiting -= len(data)
            self.written_bytes += len(data)

    def _gather(self) -> memoryview:
        first = self._backlog.popleft()
        if len(first) >= _SMALL or not self._backlog:
            return memoryview(first)
        gathered = [first]
        size = len(first)
        while self._backlog and size + len(self._backlog[0]) <= PIECE:
            gathered.append(self._backlog.popleft())
            size += len(gathered[-1])
        return memoryview(b"".join(gathered))

    def release(self) -> None:
        """Give back what the last frame took from the budget; called by the thread that reads, when it has ended."""
        if self._held is not None:
            self._held.release(for_good=True)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed here."""
        return self._closed

    def finish(self) -> None:
        """Write what is left and say that nothing follows."""
        self.flush_quietly()
        self._pipe.finish()

    def close(self) -> None:
        """Close, whoever reads or writes meanwhile."""
        self._closed = True
        self._ended.set()
        self._pipe.close()
        with self._news:
            self._news.notify_all()
