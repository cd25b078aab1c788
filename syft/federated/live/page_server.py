"""PageServer: serves the page of a run on the loopback address, to browsers that know its token."""

from __future__ import annotations

import secrets
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from syft.federated.history.page import content_policy
from syft.federated.live.feed import LiveFeed

LOOPBACK = "127.0.0.1"
# Seconds until the server notices that it is closed, and that a browser has to send its request.
_POLL, _REQUEST = 0.2, 10.0
# Maximum number of connections at a time.
_MOST = 32
_HEADERS = {
    "Content-Security-Policy": content_policy(is_live=True),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


class PageServer(ThreadingHTTPServer):
    """An HTTP server with two addresses: /TOKEN/ is the page, /TOKEN/events its updates."""

    daemon_threads = True
    timeout = _POLL

    def __init__(self, feed: LiveFeed) -> None:
        self.feed = feed
        self._free = threading.BoundedSemaphore(_MOST)
        super().__init__((LOOPBACK, 0), _PageHandler)
        self.port = int(self.server_address[1])

    def server_bind(self) -> None:
        """Bind without a lookup of this machine's name, which may ask the network."""
        socketserver.TCPServer.server_bind(self)

    def serve_until_closed(self) -> None:
        """Answer requests until the feed is closed."""
        with self:
            while not self.feed.closed.is_set():
                self.handle_request()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, or hang up if too many browsers are connected."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that a browser broke off."""

    def answers(self, host: str | None, origin: str | None) -> bool:
        """Return whether a request names this machine as its host, and comes from this page or from no page.

        The name of another site may resolve to the loopback address (DNS rebinding); its pages then send their name.
        """
        hosts = {f"{name}:{self.port}" for name in (LOOPBACK, "localhost")}
        return host in hosts and (origin is None or origin in {f"http://{name}" for name in hosts})


class _PageHandler(BaseHTTPRequestHandler):
    server: PageServer
    server_version, sys_version = "resyft", ""
    timeout = _REQUEST

    def do_GET(self) -> None:
        feed = self.server.feed
        if not self.server.answers(self.headers.get("Host"), self.headers.get("Origin")):
            self._answer(403, "text/plain", "Open the address that the run printed.\n")
            return
        _, token, *rest = self.path.partition("?")[0].split("/")
        if rest not in ([""], ["events"]) or not secrets.compare_digest(token.encode(), feed.token.encode()):
            self._answer(404, "text/plain", "There is no such page. Open the address that the run printed.\n")
        elif rest == [""]:
            self._answer(200, "text/html", feed.document())
        else:
            self._begin(200, "text/event-stream")
            feed.follow(self._send)

    def _send(self, text: str) -> None:
        self.wfile.write(text.encode())

    def _answer(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self._begin(status, kind, len(body))
        self.wfile.write(body)

    def _begin(self, status: int, kind: str, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the address contains the token."""
