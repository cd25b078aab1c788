"""Authentication and authorization of HTTP requests."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import APIRouter, Depends, Request, Security
from fastapi.security import HTTPBearer

from syft.core.labels import printable
from syft.exceptions import NotPermittedError, TooManyAttemptsError
from syft.grid.identity.roles import Capability, may
from syft.grid.node.api.models import Refusal
from syft.grid.server.auth import Principal

if TYPE_CHECKING:
    from syft.grid.node.node import Node

T = TypeVar("T")
logger = logging.getLogger("syft.node")
# Passwords are compared in separate threads, so that password guessing does not delay other requests.
_THREADS = 4
_MAX_QUEUED = 16
_MAX_QUEUED_EACH = 2
_MEANINGS = {
    400: "The request is invalid; the detail has the reason.",
    401: "The token is missing or invalid.",
    403: "The caller has no permission.",
    404: "Not found.",
    409: "The request conflicts with the present state.",
    413: "The request is too large.",
    422: "A field is missing, unknown or out of range.",
    429: "Too many failed attempts; wait for the seconds in Retry-After.",
}


def refusals(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI descriptions of error responses."""
    return {
        code: {"model": Refusal, "description": _MEANINGS[code]} for code in sorted({400, 401, 403, 413, 422, *codes})
    }


def make_router(tag: str, prefix: str = "/v1") -> APIRouter:
    """Return a router whose OpenAPI description requires a token."""
    bearer = Security(HTTPBearer(auto_error=False, scheme_name="token"))
    return APIRouter(prefix=prefix, tags=[tag], dependencies=[bearer])


def address_of(request: Request) -> str:
    """Return the client address of a request, as seen by the connection."""
    return request.client.host if request.client else ""


def caller(node: Node) -> Any:
    """Return a dependency that authenticates the caller."""

    def identify(request: Request) -> Principal:
        return _identify(node, request)

    return Depends(identify)


def needs(node: Node, capability: Capability) -> Any:
    """Return a dependency that authenticates the caller and requires a capability."""

    def check(request: Request) -> Principal:
        principal = _identify(node, request)
        if not node.context.authenticator.tokens:
            raise NotPermittedError(
                "This node runs without tokens, so it can't authenticate its owner over HTTP. Stop it and use the "
                "command line on its store, or start it with tokens."
            )
        if not may(principal.role, capability):
            raise NotPermittedError(
                f"The role {principal.role!r} may not {capability.value}. Ask the owner of the node."
            )
        return principal

    return Depends(check)


def _identify(node: Node, request: Request) -> Principal:
    principal: Principal = node.context.authenticator.identify(request.headers, address_of(request))
    logger.debug("%s requests %s %s", principal, request.method, printable(request.url.path)[:200])
    return principal


class PasswordLogin:
    """Runs password hashes, which are slow on purpose, in a few threads with a short queue."""

    def __init__(self) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="syft login")
        self._queued: Counter[tuple[str, str]] = Counter()

    async def run(self, request: Request, user: str, function: Callable[..., T], *args: Any) -> T:
        """Call a function in a thread.

        Raises:
            TooManyAttemptsError: the queue is full, or has too many entries of this user and address.
        """
        origin = (user, address_of(request))
        if self._queued.total() >= _MAX_QUEUED or self._queued[origin] >= _MAX_QUEUED_EACH:
            raise TooManyAttemptsError(1.0)
        self._queued[origin] += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, function, *args)
        finally:
            self._queued[origin] -= 1
            if not self._queued[origin]:
                del self._queued[origin]
