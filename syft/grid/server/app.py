"""The application on a node's port: WebSockets for clients and other nodes, and HTTP for everything small."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.metadata
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import torch
from fastapi import APIRouter, FastAPI, Request, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from syft.config import current
from syft.core.byte_budget import ByteBudget, UserBudgets
from syft.core.labels import printable
from syft.exceptions import (
    AuthenticationError,
    ByteBudgetError,
    NotPermittedError,
    ObjectNotFoundError,
    StorageFullError,
    SyftError,
    TooManyAttemptsError,
)
from syft.grid.server.auth import Authenticator, ConnectionLimiter, Principal
from syft.grid.server.middleware import RequestGuard
from syft.grid.server.peering import Peering
from syft.grid.server.pipe import ServerPipe
from syft.grid.server.sessions import MAX_HELLO, SessionRegistry
from syft.workers.delegation.dialer import PATH, PROTOCOL
from syft.workers.delegation.grants import DelegationRegistry
from syft.workers.delegation.key_proofs import PeerKey
from syft.workers.delegation.peer import OutboundPolicy
from syft.workers.transport.framing import FramedConnection
from syft.workers.transport.greeting import VERSION

logger = logging.getLogger("syft.node")
# Seconds between checks for clients that did not reconnect.
_SWEEP = 5.0
# Bytes in flight at a server: the minimum, and those of unauthenticated requests. A compressed message needs its
# size twice: compressed and decompressed.
IN_FLIGHT, STRANGERS = 4 << 30, 64 << 20
_TWICE = 2


class NodeContext:
    """The context of the application, supplied by the program that runs it.

    Args:
        worker: the worker that is served.
        authenticator: authenticates clients.
        grace: seconds that a session is kept after its connection was lost.
        most: connections at once.
        each: connections of one user at once.
        limit: bytes of the largest message that is read; None: the configured limit.
        in_flight: bytes of messages that are not processed yet; None: IN_FLIGHT, or more if one user may have more.
        user_in_flight: the same for one user; None: twice the largest message.
    """

    def __init__(
        self,
        worker: Any,
        authenticator: Authenticator,
        grace: float = 60.0,
        most: int = 512,
        each: int = 64,
        limit: int | None = None,
        in_flight: int | None = None,
        user_in_flight: int | None = None,
    ) -> None:
        self.worker = worker
        self.authenticator = authenticator
        self.limit = current().max_message_bytes if limit is None else limit
        self.sessions = SessionRegistry(worker, authenticator, grace, self.limit)
        self.limiter = ConnectionLimiter(most, each)
        of_user = _TWICE * self.limit if user_in_flight is None else user_in_flight
        self.budgets = UserBudgets(max(IN_FLIGHT, of_user) if in_flight is None else in_flight, of_user, STRANGERS)
        # Accepts other nodes, if enabled (see `accept_peers`).
        self.peering: Any = None
        # Seconds that a client may pause in the middle of a frame, and take to read a response.
        self.frame_timeout = 3 * current().heartbeat
        # Called every few seconds.
        self.sweeps: list[Callable[[], None]] = []

    def accept_peers(self, rules: OutboundPolicy, key: PeerKey | None = None, certificate: bytes | None = None) -> None:
        """Let clients introduce this worker and others to each other, so that they compute together."""
        self.worker.delegations = DelegationRegistry(self.worker, rules, key, certificate)
        self.peering = Peering(self.worker.delegations, self.sessions)

    def sweep(self) -> None:
        """End the sessions of clients that did not reconnect, or may not stay."""
        self.sessions.sweep()
        for sweep in self.sweeps:
            sweep()
        if self.peering is not None:
            self.peering.sweep()

    def version(self) -> dict[str, str]:
        """Return the program and version that run here."""
        return {"resyft": importlib.metadata.version("resyft"), "torch": torch.__version__, "stream": str(VERSION)}

    def figures(self) -> dict[str, float]:
        """Return the metrics of the server, by name."""
        store = self.worker.object_store
        requests = getattr(self.worker.policy, "requests", None)
        return {
            "syft_connections": len(self.limiter),
            "syft_sessions": len(self.sessions),
            "syft_objects": len(store.objects),
            "syft_pending_requests": 0 if requests is None else len(requests.list(status="pending")),
            "syft_requests_total": self.sessions.requests,
            "syft_received_bytes_total": self.sessions.received,
            "syft_in_flight_bytes": self.budgets.node.taken,
        }


def make_app(context: NodeContext, routers: Iterable[APIRouter] = (), title: str = "resyft node") -> FastAPI:
    """Make the application of a port."""
    app = FastAPI(
        title=title,
        version=context.version()["resyft"],
        lifespan=functools.partial(_lifespan, context),
        docs_url=None,
        redoc_url=None,
    )
    prepare(app, context.authenticator, context.budgets.strangers)
    app.include_router(_facts(context))
    for router in routers:
        app.include_router(router)
    app.add_api_websocket_route("/stream", functools.partial(_stream, context))
    if context.peering is not None:
        app.state.upgrades = {(PROTOCOL.encode(), PATH): context.peering.take}
    return app


def prepare(app: FastAPI, authenticator: Authenticator, budget: ByteBudget | None = None) -> None:
    """Add error handlers and request checks to an application."""
    app.add_exception_handler(SyftError, _explain)
    app.add_exception_handler(RequestValidationError, _explain_fields)
    app.add_middleware(
        RequestGuard, authenticator=authenticator, budget=budget or ByteBudget(STRANGERS, name="all requests")
    )


@contextlib.asynccontextmanager
async def _lifespan(context: NodeContext, app: FastAPI) -> AsyncIterator[None]:
    sweeping = asyncio.create_task(_sweep(context))
    try:
        yield
    finally:
        sweeping.cancel()
        await asyncio.to_thread(context.sessions.end_all)


async def _sweep(context: NodeContext) -> None:
    while True:
        await asyncio.sleep(_SWEEP)
        try:
            await asyncio.to_thread(context.sweep)
        except Exception:
            logger.exception("Sessions of lost clients could not be ended")


def status_of(error: Exception) -> int:
    """Return the HTTP status of an error: its own, or that of its kind."""
    kind = next((status for kind, status in STATUS if isinstance(error, kind)), 400)
    return getattr(error, "http_status", kind)


# The first row that matches counts; the default is 400.
STATUS: list[tuple[type[Exception], int]] = [
    (TooManyAttemptsError, 429),
    (AuthenticationError, 401),
    (NotPermittedError, 403),
    (ObjectNotFoundError, 404),
    (StorageFullError, 507),
    (ByteBudgetError, 503),
]


async def _explain(request: Request, error: Exception) -> Response:
    headers = {}
    if isinstance(error, AuthenticationError | NotPermittedError):
        address = request.client.host if request.client else ""
        asked = printable(f"{request.method} {request.url.path}")[:200]
        logger.info("A client from %s was refused %s: %s", address, asked, error)
    if isinstance(error, TooManyAttemptsError):
        headers["Retry-After"] = str(max(1, round(error.retry_after)))
    elif isinstance(error, AuthenticationError):
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"detail": str(error)}, status_of(error), headers)


async def _explain_fields(request: Request, error: Exception) -> Response:
    """Name the invalid fields, without repeating their contents: they may be a password."""
    found = error.errors() if isinstance(error, RequestValidationError) else []
    texts = [_field(each) for each in found[:10]]
    return JSONResponse({"detail": f"{'; '.join(texts)}." if texts else "The request can't be read."}, 422)


# Explanations of invalid fields, by pydantic's error type; with pydantic's values in braces.
_FAULTS = {
    "missing": "is missing",
    "extra_forbidden": "is not known here",
    "literal_error": "is one of {expected}",
    "string_too_long": "has at most {max_length} characters",
    "string_too_short": "has at least {min_length} characters",
    "string_pattern_mismatch": "is not written like this",
    "string_type": "is a text",
    "too_long": "has at most {max_length} entries",
    "list_type": "is a list",
    "bool_type": "is true or false",
    "bool_parsing": "is true or false",
    "int_parsing": "is a whole number",
    "int_type": "is a whole number",
    "int_from_float": "is a whole number",
    "float_parsing": "is a number",
    "float_type": "is a number",
    "finite_number": "is a finite number",
    "greater_than": "is more than {gt}",
    "greater_than_equal": "is at least {ge}",
    "less_than": "is less than {lt}",
    "less_than_equal": "is at most {le}",
    "json_invalid": "is no JSON",
}


def _field(fault: dict[str, Any]) -> str:
    """Explain one invalid field, under the name that callers use."""
    name = ".".join(str(part) for part in fault["loc"][1:])[:100] or "the request"
    text = _FAULTS.get(fault["type"], "is not right")
    return f"{printable(name)} {text.format(**fault.get('ctx', {}))}"[:300]


def about_routes(id: str, versions: dict[str, str]) -> APIRouter:
    """Return the routes of the health and the version of a server."""
    router = APIRouter(tags=["about"])

    @router.get("/health")
    def health() -> dict[str, str]:
        """Report that the server is up."""
        return {"status": "ok", "id": id}

    @router.get("/version")
    def version() -> dict[str, str]:
        """Return the version of the server."""
        return versions

    return router


def _facts(context: NodeContext) -> APIRouter:
    router = about_routes(str(context.worker.id), context.version())

    @router.get("/metrics", response_class=PlainTextResponse, responses={401: {"description": "Invalid token."}})
    def metrics(request: Request) -> str:
        """Return metrics in the format of Prometheus; never anything about data."""
        context.authenticator.identify(request.headers, request.client.host if request.client else "")
        return "".join(_metric(name, value) for name, value in sorted(context.figures().items()))

    return router


# Prometheus help texts.
_HELP = {
    "syft_connections": "Open connections.",
    "syft_sessions": "Sessions, including those that clients may resume.",
    "syft_objects": "Objects held.",
    "syft_pending_requests": "Requests for release that wait for the owner.",
    "syft_requests_total": "Client messages answered.",
    "syft_received_bytes_total": "Bytes received from clients.",
    "syft_in_flight_bytes": "Bytes of messages that are being received, read or answered.",
}


def _metric(name: str, value: float) -> str:
    """Return a metric in the format of Prometheus."""
    kind = "counter" if name.endswith("_total") else "gauge"
    return f"# HELP {name} {_HELP.get(name, name)}\n# TYPE {name} {kind}\n{name} {value}\n"


async def accept_client(context: NodeContext, websocket: WebSocket) -> Principal | None:
    """Authenticate the client of a WebSocket and accept it; None if it was refused."""
    address = websocket.client.host if websocket.client else ""
    try:
        if "origin" in websocket.headers:  # a page in a browser, on behalf of any user
            raise AuthenticationError("Pages in browsers are not served here.")
        principal = await asyncio.to_thread(context.authenticator.identify, websocket.headers, address)
    except AuthenticationError as error:
        logger.info("A client from %s was refused: %s", address, error)
        await websocket.send_denial_response(PlainTextResponse(str(error), status_of(error)))
        return None
    if not context.limiter.enter(principal.user):
        logger.info("%s from %s was refused: there are too many connections", principal, address)
        await websocket.send_denial_response(PlainTextResponse("Too many connections; try again later.", 503))
        return None
    try:
        await websocket.accept()
    except Exception:
        context.limiter.leave(principal.user)
        raise
    logger.info("%s connected from %s", principal, address)
    return principal


async def _stream(context: NodeContext, websocket: WebSocket) -> None:
    principal = await accept_client(context, websocket)
    if principal is None:
        return
    try:
        budget = context.budgets.of(principal.user)
        pipe = ServerPipe(websocket, context.frame_timeout, budget)
        args = (context, pipe, FramedConnection(pipe, MAX_HELLO, budget=budget, drops_refused=True), principal)
        threading.Thread(target=_serve, args=args, name=f"syft {principal.user}", daemon=True).start()
        await pipe.pump()
    finally:
        context.limiter.leave(principal.user)
        logger.info("%s disconnected from %s", principal, websocket.client.host if websocket.client else "")


def _serve(context: NodeContext, pipe: ServerPipe, connection: FramedConnection, principal: Principal) -> None:
    """Serve a client in a thread of its own, until its connection ends."""
    try:
        context.sessions.serve(connection, principal)
    finally:
        pipe.release()
