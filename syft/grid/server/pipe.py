"""ServerPipe: the bytes of a WebSocket, between the event loop that serves it and the thread that responds."""

from __future__ import annotations

import asyncio
import collections
import threading
from typing import TYPE_CHECKING, Any

from starlette.websockets import WebSocket

from syft.core.byte_budget import ByteBudget
from syft.exceptions import ByteBudgetError
from syft.grid.server.uvicorn_timeouts import ABORT
from syft.workers.transport.pipe import Bytes

if TYPE_CHECKING:
    from collections.abc import Callable

# Bytes queued for the thread beyond which the client has to wait.
_HIGH, _LOW = 8 << 20, 2 << 20
# Bytes queued for the client beyond which the thread has to wait.
_AHEAD = 1 << 20
# Seconds that the last bytes may take to be sent.
_LAST_SECONDS = 5.0


class ServerPipe:
    """A WebSocket, as seen by the thread of its connection.

    Args:
        websocket: an accepted WebSocket.
        pause_timeout: seconds that the client may take to read what is sent, and pause in the middle of a frame.
        budget: the budget of the client, charged for bytes that are queued for the thread.
    """

    def __init__(self, websocket: WebSocket, pause_timeout: float, budget: ByteBudget | None = None) -> None:
        self._websocket = websocket
        self.pause_timeout: float | None = pause_timeout
        self._loop = asyncio.get_running_loop()
        self._abort: Any = websocket.scope.get("extensions", {}).get(ABORT)
        # Bytes queued for the thread, each with the amount charged to the budget.
        self._arrived: collections.deque[tuple[bytes, int]] = collections.deque()
        self._size = 0
        self._budget = budget
        self._is_released = False
        self._news = threading.Condition()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._ended = False
        # Bytes queued for the client, in order; the loop sends them, and the thread waits only if there are many.
        self._leaving: collections.deque[bytes] = collections.deque()
        self._leaving_size = 0
        self._sending: asyncio.Task[None] | None = None
        self._taken = threading.Condition()

    # --- in the event loop ------------------------------------------------------------------------------------

    async def pump(self) -> None:
        """Receive from the client until the end, no faster than the thread reads."""
        try:
            while not self._ended:
                event = await self._websocket.receive()
                if event["type"] != "websocket.receive":
                    return
                data = event.get("bytes")
                if data is None:  # text messages are not part of the protocol
                    return
                if data:
                    self._put(data)
                    await self._has_room.wait()
        finally:
            self._end()

    def _put(self, data: bytes) -> None:
        counted = self._count(len(data))
        with self._news:
            self._arrived.append((data, counted))
            self._size += len(data)
            # If the budget is used up, the client waits until the thread has read everything.
            if self._size > (_HIGH if counted == len(data) else 0):
                self._has_room.clear()
            self._news.notify()
            ended = self._is_released
        if ended:
            self.release()

    def _count(self, size: int) -> int:
        """Charge the budget of the client; returns the amount charged."""
        if self._budget is None:
            return size
        try:
            self._budget.take(size)
        except ByteBudgetError:
            return 0
        return size

    def _end(self) -> None:
        with self._news:
            self._ended = True
            self._news.notify()
        with self._taken:
            self._taken.notify_all()
        self._has_room.set()

    def _start_sending(self) -> None:
        if self._sending is None or self._sending.done():
            self._sending = self._loop.create_task(self._send_all())

    async def _send_all(self) -> None:
        """Send what is queued; a client that does not read it in time is disconnected."""
        try:
            while self._leaving:
                message = {"type": "websocket.send", "bytes": self._leaving[0]}
                await asyncio.wait_for(self._websocket.send(message), self.pause_timeout)
                with self._taken:
                    self._leaving_size -= len(self._leaving.popleft())
                    self._taken.notify_all()
        except Exception:  # the client is gone, or does not read
            self._end()
            self._break_off()

    def _break_off(self) -> None:
        """End the connection at once, without a closing handshake that would wait for the client to read."""
        if self._abort is not None:
            self._abort()

    # --- in the thread ----------------------------------------------------------------------------------------

    def recv(self, within: float | None = None) -> bytes:
        """Return bytes; empty at the end, or if none arrive within the given seconds."""
        with self._news:
            if not self._news.wait_for(lambda: self._arrived or self._ended, within) or not self._arrived:
                return b""
            data, counted = self._arrived.popleft()
            self._size -= len(data)
            if not self._has_room.is_set() and (not self._arrived or self._size <= _LOW):
                self._tell(self._has_room.set)
        if self._budget is not None and counted:
            self._budget.give(counted)
        return data

    def release(self) -> None:
        """Drop unread bytes, once both the client and the thread are gone."""
        with self._news:
            self._is_released = True
            left = sum(counted for _, counted in self._arrived)
            self._arrived.clear()
        if self._budget is not None and left:
            self._budget.give(left)

    def send(self, data: Bytes) -> None:
        """Send bytes after those before them, waiting if the client does not read."""
        with self._taken:
            if not self._taken.wait_for(lambda: self._leaving_size <= _AHEAD or self._ended, self.pause_timeout):
                raise ConnectionError("the client does not read")
            if self._ended:
                raise ConnectionError("the client is gone")
            self._leaving.append(bytes(data))
            self._leaving_size += len(data)
            begins = len(self._leaving) == 1
        if begins and not self._tell(self._start_sending):
            raise ConnectionError("the server is stopping")

    def send_some(self, data: Bytes) -> int:
        """Send the bytes if that takes no waiting; returns their number, or 0."""
        if self._leaving_size > _AHEAD:
            return 0
        self.send(data)
        return len(data)

    def close(self) -> None:
        """Close the connection; pending reads and writes end."""
        with self._news:
            if self._ended:
                return
            self._ended = True
            self._news.notify()
        with self._taken:
            self._taken.notify_all()
        self._tell(self._start_closing)

    def _tell(self, what: Callable[[], object]) -> bool:
        try:
            self._loop.call_soon_threadsafe(what)
            return True
        except RuntimeError:  # the loop is closed
            return False

    def _start_closing(self) -> None:
        self._has_room.set()
        self._closing = self._loop.create_task(self._close())

    async def _close(self) -> None:
        try:
            if self._sending is not None:
                await asyncio.wait({self._sending}, timeout=_LAST_SECONDS)  # bytes queued before the end
            await asyncio.wait_for(self._websocket.close(), _LAST_SECONDS)
        except Exception:
            self._break_off()  # it is closed already, or does not read
