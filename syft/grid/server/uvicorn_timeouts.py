"""The HTTP side of a node's port: uvicorn's protocol with a limit on how long a request may take to arrive."""

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

# Seconds until TLS must be agreed on, until the head of a request must be there, and then until its body must be.
TLS_SECONDS = 10.0
HEAD_SECONDS = 10.0
BODY_SECONDS = 60.0


_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class PortConfig(uvicorn.Config):
    """uvicorn's settings, and where connections wait whose clients are not identified yet."""

    room: PendingConnections | None = None


def _room_of(protocol: Any) -> PendingConnections:
    room: PendingConnections | None = getattr(protocol.config, "room", None)
    return PendingConnections() if room is None else room  # one that nobody is in


class TimeoutLoop(asyncio.SelectorEventLoop):
    """An event loop whose servers wait for a handshake of TLS no longer than for a request."""

    async def create_server(self, *args: Any, **settings: Any) -> Any:
        """Make a server; uvicorn does not say how long a handshake may take, and asyncio waits for a minute."""
        if settings.get("ssl") is not None:
            settings.setdefault("ssl_handshake_timeout", TLS_SECONDS)
        return await super().create_server(*args, **settings)


class TimeoutProtocol(H11Protocol):
    """HTTP/1.1, for clients that may be slow but not for ever.

    uvicorn waits for ever for the rest of a request, so a few clients that send a byte now and then could take
    all connections.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait(HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; one that is whole has all the time it needs to be answered."""
        if self._deadline is None:
            self._wait(HEAD_SECONDS)  # the next request of a connection that stayed open
        before: Any = self.cycle  # None before the first request, whatever uvicorn's types say
        super().data_received(data)
        after: Any = self.cycle
        if after is not before:
            self._wait(BODY_SECONDS)
        if after is not None and not after.more_body:
            self._stop_waiting()
            self._mark(not after.response_complete)

    def on_response_complete(self) -> None:
        """Count the connection as silent until its next request is there."""
        self._mark(False)
        super().on_response_complete()

    def _mark(self, is_busy: bool) -> None:
        _room_of(self).mark(self.transport.get_extra_info("peername"), is_busy)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop to wait."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _should_upgrade(self) -> bool:
        return self._taker() is not None or super()._should_upgrade()

    def _taker(self) -> Any:
        """Return what takes a connection over that asks for another protocol than websockets, if there is such."""
        upgrades = getattr(getattr(self.config.app, "state", None), "upgrades", {})
        return upgrades.get((self._get_upgrade(), self.scope["path"]))

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the connection over to the protocol that was asked for, which has limits of its own."""
        self._stop_waiting()
        self._mark(True)
        take = self._taker()
        if take is None:
            super().handle_websocket_upgrade(event)
        else:
            self.connections.discard(self)
            take(self.transport, self.headers, self.conn.trailing_data[0])
            if not self.transport.is_closing():  # it was let in
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
    """Websockets, for clients that may stop reading.

    uvicorn closes a connection after what was written to it; a client that does not read would keep it for ever. So
    would one whose handshake can't be read, as with a header that is too long: uvicorn does not answer it at all.
    """

    def data_received(self, data: bytes) -> None:
        """Take what came; a handshake that can't be read is answered, and the connection ends."""
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.transport.is_closing():
            self.transport.write(_BAD_REQUEST)
            self.transport.close()

    def handle_connect(self, event: Any) -> None:
        """Let the application break the connection off."""
        super().handle_connect(event)
        scope: Any = getattr(self, "scope", None)  # a handshake that was refused has none
        if scope is not None:
            scope["extensions"][ABORT] = self.transport.abort

    def shutdown(self) -> None:
        """End the connection; if its client is about to end it, uvicorn can't say so to it, and need not."""
        try:
            super().shutdown()
        except InvalidState:
            self.transport.close()

    async def send(self, message: Any) -> None:
        """Send something of the application; a refusal ends the handshake, which uvicorn takes for a mistake."""
        await super().send(message)
        if message["type"] == "websocket.accept":  # the application knows who it is
            _room_of(self).leave(self.transport.get_extra_info("peername"))
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True

    def keepalive_timeout(self) -> None:
        """Break the connection of a client off that did not answer: it would not hear a farewell either."""
        self.transport.abort()


# The name under which an application finds what breaks its connection off.
ABORT = "syft.abort"
