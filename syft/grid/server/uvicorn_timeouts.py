"""The HTTP side of a node's port: uvicorn's protocols with limits on how long a request may take to arrive."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

from syft.grid.server.pending_connections import PendingConnections

if TYPE_CHECKING:
    import h11

# Seconds for the TLS handshake, for the head of a request, and for its body after that.
TLS_SECONDS = 10.0
HEAD_SECONDS = 10.0
BODY_SECONDS = 60.0


_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class PortConfig(uvicorn.Config):
    """uvicorn's settings, with the count of unauthenticated connections."""

    room: PendingConnections | None = None


def _room_of(protocol: Any) -> PendingConnections:
    room: PendingConnections | None = getattr(protocol.config, "room", None)
    return PendingConnections() if room is None else room  # an empty one


class TimeoutLoop(asyncio.SelectorEventLoop):
    """An event loop whose servers limit the TLS handshake to the time of a request."""

    async def create_server(self, *args: Any, **settings: Any) -> Any:
        """Make a server; uvicorn does not pass the limit of a handshake, and asyncio's default is a minute."""
        if settings.get("ssl") is not None:
            settings.setdefault("ssl_handshake_timeout", TLS_SECONDS)
        return await super().create_server(*args, **settings)


class TimeoutProtocol(H11Protocol):
    """HTTP/1.1, with limits for slow clients.

    uvicorn waits indefinitely for the rest of a request, so a few clients that send a byte now and then could use up
    all connections.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the timer for the first request."""
        super().connection_made(transport)
        self._wait(HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Process a part of a request; a complete one has no limit on its response."""
        if self._deadline is None:
            self._wait(HEAD_SECONDS)  # the next request of a kept-alive connection
        before: Any = self.cycle  # None before the first request, whatever uvicorn's types say
        super().data_received(data)
        after: Any = self.cycle
        if after is not before:
            self._wait(BODY_SECONDS)
        if after is not None and not after.more_body:
            self._stop_waiting()
            self._mark(not after.response_complete)

    def on_response_complete(self) -> None:
        """Count the connection as silent until its next request arrives."""
        self._mark(False)
        super().on_response_complete()

    def _mark(self, is_busy: bool) -> None:
        _room_of(self).mark(self.transport.get_extra_info("peername"), is_busy)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _should_upgrade(self) -> bool:
        return self._taker() is not None or super()._should_upgrade()

    def _taker(self) -> Any:
        """Return the handler of a connection that requests another protocol than WebSockets, if there is one."""
        upgrades = getattr(getattr(self.config.app, "state", None), "upgrades", {})
        return upgrades.get((self._get_upgrade(), self.scope["path"]))

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Pass the connection to the requested protocol, which has limits of its own."""
        self._stop_waiting()
        self._mark(True)
        take = self._taker()
        if take is None:
            super().handle_websocket_upgrade(event)
        else:
            self.connections.discard(self)
            take(self.transport, self.headers, self.conn.trailing_data[0])
            if not self.transport.is_closing():  # it was accepted
                _room_of(self).leave(self.transport.get_extra_info("peername"))

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.abort()


class TimeoutWebsocket(WebSocketsSansIOProtocol):
    """WebSockets, with limits for clients that stop reading.

    uvicorn closes a connection after pending writes; a client that does not read would keep it open. So would one whose
    handshake can't be parsed, as with a header that is too long: uvicorn does not answer it at all.
    """

    def data_received(self, data: bytes) -> None:
        """Process received bytes; an invalid handshake is answered, and the connection ends."""
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.transport.is_closing():
            self.transport.write(_BAD_REQUEST)
            self.transport.close()

    def handle_connect(self, event: Any) -> None:
        """Let the application abort the connection."""
        super().handle_connect(event)
        scope: Any = getattr(self, "scope", None)  # a refused handshake has none
        if scope is not None:
            scope["extensions"][ABORT] = self.transport.abort

    def shutdown(self) -> None:
        """End the connection; if its client is closing it, uvicorn can't send a close frame, and need not."""
        try:
            super().shutdown()
        except InvalidState:
            self.transport.close()

    async def send(self, message: Any) -> None:
        """Send a message of the application; a refusal ends the handshake, which uvicorn would report as an error."""
        await super().send(message)
        if message["type"] == "websocket.accept":  # the application has authenticated the client
            _room_of(self).leave(self.transport.get_extra_info("peername"))
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True

    def keepalive_timeout(self) -> None:
        """Abort the connection of a client that did not answer a ping: it would not read a close frame either."""
        self.transport.abort()


# The name under which an application finds the function that aborts its connection.
ABORT = "syft.abort"
