"""RequestGuard: checks and headers for every HTTP request to a node, before any handler."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

from syft.core.byte_budget import ByteBudget, Holding
from syft.exceptions import AuthenticationError, ByteBudgetError
from syft.grid.server.auth import Authenticator

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Bytes of the largest body that is read; larger data is sent over the stream.
MAX_BODY = 1 << 20
POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
# Security headers of every response.
SECURITY = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": POLICY,
}


class _TooLarge(Exception):
    """A body exceeds its limit, or the budget."""


class RequestGuard:
    """Refuses large bodies and requests of pages in browsers, and adds security headers."""

    def __init__(self, app: ASGIApp, authenticator: Authenticator, budget: ByteBudget) -> None:
        self.app = app
        self.authenticator = authenticator
        self._budget = budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(headers, scope)
        if refusal is not None:
            await _refuse(scope, receive, send, *refusal)
            return
        started = False  # the response
        taken = 0  # bytes of the body
        refused: tuple[int, str] | None = None
        held = Holding(self._budget)

        async def take() -> Any:
            nonlocal taken, refused
            message = await receive()
            size = len(message.get("body", b""))
            taken += size
            if taken > MAX_BODY:
                refused = 413, _TOO_LARGE
            elif size:
                try:
                    held.take(size)
                except ByteBudgetError:
                    refused = 503, _CROWDED
            if refused is not None:
                raise _TooLarge
            return message

        async def give(message: Message) -> None:
            nonlocal started
            if refused is not None and not started:
                return  # it is the cause of any other error
            if message["type"] == "http.response.start":
                started = True
                _protect(message)
            await send(message)

        try:
            with contextlib.suppress(_TooLarge):
                await self.app(scope, take, give)
            if refused is not None and not started:
                await _refuse(scope, receive, send, *refused)
        finally:
            held.release()

    def _refusal(self, headers: Headers, scope: Scope) -> tuple[int, str] | None:
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length[:12]) > MAX_BODY:
            return 413, _TOO_LARGE
        if "origin" in headers:
            return 403, "Pages in browsers are not served here. Use the command line: python -m syft node --help"
        if not self.authenticator.tokens:
            try:
                self.authenticator.identify(headers, (scope.get("client") or ("",))[0])
            except AuthenticationError as error:
                return 403, str(error)
        return None


_CROWDED = "Too many requests arrive at once. Try again later."
_TOO_LARGE = f"A request has at most {MAX_BODY} bytes here. Send data over the stream: sy.connect(...)."


def _protect(message: Message) -> None:
    headers = MutableHeaders(raw=message.setdefault("headers", []))
    for name, value in SECURITY.items():
        headers.setdefault(name, value)


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int, text: str) -> None:
    # The connection is closed, because the rest of the request is not read.
    response = JSONResponse({"detail": text}, status, {**SECURITY, "connection": "close"})
    await response(scope, receive, send)
