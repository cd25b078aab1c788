"""ServerPipe: the bytes of a websocket, between the event loop that serves it and the thread that answers."""

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

# Bytes that wait for the thread before the client has to wait.
_HIGH, _LOW = 8 << 20, 2 << 20
# Bytes that the thread is ahead of the client.
_AHEAD = 1 << 20
# How long what was said last may take to be heard.
_LAST_SECONDS = 5.0


class ServerPipe:
    """A websocket as the thread of its connection sees it.

    Args:
        websocket: an accepted websocket.
        patience: seconds that the client may take to take what is sent, and to go on with what it began.
        budget: the budget of the client, which counts what waits for the thread.
    """

    def __init__(self, websocket: WebSocket, patience: float, budget: ByteBudget | None = None) -> None:
        self._websocket = websocket
        self.patience: float | None = patience
        self._loop = asyncio.get_running_loop()
        self._abort: Any = websocket.scope.get("extensions", {}).get(ABORT)
        # What waits for the thread, each with the bytes that it took from the budget.
        self._arrived: collections.deque[tuple[bytes, int]] = collections.deque()
        self._size = 0
        self._budget = budget
        self._is_released = False
        self._news = threading.Condition()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._ended = False
        # What waits to be sent, in order; the loop sends it, and the thread waits only where it is much.
        self._leaving: collections.deque[bytes] = collections.deque()
        self._leaving_size = 0
        self._sending: asyncio.Task[None] | None = None
        self._taken = threading.Condition()

    # --- in the event loop ------------------------------------------------------------------------------------

    async def pump(self) -> None:
        """Take what the client sends until it ends, no quicker than the thread does."""
        try:
            while not self._ended:
                event = await self._websocket.receive()
                if event["type"] != "websocket.receive":
                    return
                data = event.get("bytes")
                if data is None:  # texts are not spoken here
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
            # Where the budget is used up the client waits until the thread has taken everything.
            if self._size > (_HIGH if counted == len(data) else 0):
                self._has_room.clear()
            self._news.notify()
            ended = self._is_released
        if ended:
            self.release()

    def _count(self, size: int) -> int:
        """Take what arrived from the budget of the client; returns what was taken."""
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
        """Send what is waiting; a client that does not take it in time is hung up on."""
        try:
            while self._leaving:
                message = {"type": "websocket.send", "bytes": self._leaving[0]}
                await asyncio.wait_for(self._websocket.send(message), self.patience)
                with self._taken:
                    self._leaving_size -= len(self._leaving.popleft())
                    self._taken.notify_all()
        except Exception:  # whatever the server says of a client that is gone, or does not read
            self._end()
            self._break_off()

    def _break_off(self) -> None:
        """End the connection at once, without a farewell that would wait behind what the client does not read."""
        if self._abort is not None:
            self._abort()

    # --- in the thread ----------------------------------------------------------------------------------------

    def recv(self, within: float | None = None) -> bytes:
        """Return bytes that arrived; nothing at the end, or if none come within so many seconds."""
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
        """Forget what nobody took, once both the client and the thread are gone."""
        with self._news:
            self._is_released = True
            left = sum(counted for _, counted in self._arrived)
            self._arrived.clear()
        if self._budget is not None and left:
            self._budget.give(left)

    def send(self, data: Bytes) -> None:
        """Send bytes after those before them, waiting where the client does not take them."""
        with self._taken:
            if not self._taken.wait_for(lambda: self._leaving_size <= _AHEAD or self._ended, self.patience):
                raise ConnectionError("the client does not read")
            if self._ended:
                raise ConnectionError("the client is gone")
            self._leaving.append(bytes(data))
            self._leaving_size += len(data)
            begins = len(self._leaving) == 1
        if begins and not self._tell(self._start_sending):
            raise ConnectionError("the server ends")

    def send_some(self, data: Bytes) -> int:
        """Send the bytes if that takes no waiting; returns their number, or 0."""
        if self._leaving_size > _AHEAD:
            return 0
        self.send(data)
        return len(data)

    def close(self) -> None:
        """Close, whoever reads or writes meanwhile."""
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
        except RuntimeError:  # the loop is closed, and everything with it
            return False

    def _start_closing(self) -> None:
        self._has_room.set()
        self._closing = self._loop.create_task(self._close())

    async def _close(self) -> None:
        try:
            if self._sending is not None:
                await asyncio.wait({self._sending}, timeout=_LAST_SECONDS)  # what was said before the end
            await asyncio.wait_for(self._websocket.close(), _LAST_SECONDS)
        except Exception:
            self._break_off()  # it is closed already, or does not listen
