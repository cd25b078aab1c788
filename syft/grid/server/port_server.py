"""PortServer: an application on one port, with or without TLS. GridServer: the common part of nodes and gateways."""

from __future__ import annotations

import contextlib
import socket
import ssl
import sys
import threading
from typing import TYPE_CHECKING

import uvicorn

from syft.config import current
from syft.exceptions import SyftError
from syft.grid.server.pending_connections import BATCH, BoundedListener, PendingConnections
from syft.grid.server.settings import ServerSettings
from syft.grid.server.uvicorn_timeouts import PortConfig, TimeoutLoop, TimeoutProtocol, TimeoutWebsocket
from syft.workers.transport.tls import server_context
from syft.workers.transport.websocket import CHUNK

if TYPE_CHECKING:
    from starlette.types import ASGIApp

# Responding threads share the interpreter with the one that moves bytes, which must not wait long for its turn.
_SWITCH = 0.001
_START_SECONDS = 30.0
_STOP_SECONDS = 10


class PortServer:
    """Serves an application on one port.

    Args:
        app: the ASGI application.
        host: the address to listen on.
        port: the port; 0: any that is free.
        context: the TLS context, if any.
        heartbeat: seconds of silence after which a client is pinged; None: as configured.
        room: counts connections until their clients are authenticated; None: one of the default size.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        context: ssl.SSLContext | None = None,
        heartbeat: float | None = None,
        room: PendingConnections | None = None,
    ) -> None:
        self.app = app
        self.context = context
        self._heartbeat = current().heartbeat if heartbeat is None else heartbeat
        self.room = PendingConnections() if room is None else room
        self._socket = _listen(host, port)
        self._socket.room = self.room
        self.host = host
        self.port: int = self._socket.getsockname()[1]
        self._thread: threading.Thread | None = None
        # The thread that serves, which may be the caller's.
        self._runner: threading.Thread | None = None
        self._ended = threading.Event()
        # Whether it was stopped; then its port is closed.
        self.is_stopped = False
        self._server = uvicorn.Server(self._config())

    def _config(self) -> uvicorn.Config:
        context = self.context
        config = PortConfig(
            self.app,
            http=TimeoutProtocol,
            ws=TimeoutWebsocket,
            ws_max_size=2 * CHUNK,
            ws_ping_interval=self._heartbeat,
            ws_ping_timeout=self._heartbeat,
            ws_per_message_deflate=False,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=_STOP_SECONDS,
            # There is no common limit on connections, by which unauthenticated clients could block others: they have
            # a limit of their own, and authenticated ones that of the application.
            limit_concurrency=None,
            backlog=BATCH,
            h11_max_incomplete_event_size=1 << 14,
            proxy_headers=False,
            loop=f"{TimeoutLoop.__module__}:{TimeoutLoop.__qualname__}",
            ssl_context_factory=None if context is None else lambda config, default: context,
        )
        config.room = self.room
        return config

    @property
    def url(self) -> str:
        """The address for clients."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'ws' if self.context is None else 'wss'}://{host}:{self.port}"

    @property
    def is_serving(self) -> bool:
        """Whether it serves in a thread of its own."""
        return self._thread is not None and self._thread.is_alive()

    def run(self) -> None:
        """Serve until it is interrupted or stopped."""
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH))
        self._runner = threading.current_thread()
        try:
            with contextlib.suppress(KeyboardInterrupt):  # uvicorn has ended everything before
                self._server.run(sockets=[self._socket])
        finally:
            self._runner, self.is_stopped = None, True
            self._ended.set()

    def start(self) -> None:
        """Serve in a thread, and return when clients can connect."""
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self.run, name="syft server", daemon=True)
        self._thread.start()
        pause = threading.Event()
        for _ in range(int(_START_SECONDS / 0.01)):
            if self._server.started:
                return
            if not self._thread.is_alive():
                break
            pause.wait(0.01)
        raise SyftError("The server did not start. Its log has the reason.")

    def stop(self) -> None:
        """Accept no more clients, end the sessions, and stop."""
        self.is_stopped = self._server.should_exit = True
        runner = self._runner
        if runner is threading.current_thread():
            return  # it ends after this call, and closes the port
        if runner is not None:
            self._ended.wait(_STOP_SECONDS + 5)
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS + 5)
        self._socket.close()


class GridServer:
    """A program on one port, with everything that it closes at its end."""

    server: PortServer

    def __init__(self, settings: ServerSettings) -> None:
        self._closing = contextlib.ExitStack()
        self._tls = server_context(settings.certificate, settings.key) if settings.certificate is not None else None

    @property
    def url(self) -> str:
        """The URL for clients."""
        return self.server.url

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self.server.port

    def start(self) -> None:
        """Serve in a thread; returns when clients can connect."""
        self.server.start()

    def run(self) -> None:
        """Serve until interrupted, then close everything."""
        try:
            self.server.run()
        finally:
            self.close()

    def stop(self) -> None:
        """Stop serving and close everything."""
        self.server.stop()
        self.close()

    def close(self) -> None:
        """Close everything; idempotent."""
        self._closing.close()


def _listen(host: str, port: int) -> BoundedListener:
    """Open a port. Small responses are sent at once: asyncio ensures that only for sockets that say they are TCP."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = BoundedListener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.bind((host, port))
        sock.listen()
    except OSError as error:
        sock.close()
        reason = error.strerror or type(error).__name__
        raise SyftError(f"Port {port} of {host} can't be opened: {reason}. Choose another port.") from None
    return sock
