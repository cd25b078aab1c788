"""Who asks over HTTP, and what they may do."""

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
# Passwords are compared in threads of their own, so that who guesses keeps nobody else waiting; nor does who logs in
# again and again.
_THREADS = 4
_WAITING = 16
_WAITING_EACH = 2
_MEANINGS = {
    400: "What was given is no good; the text says what.",
    401: "There is no token, or it is not good.",
    403: "The caller may not do this.",
    404: "It is not here.",
    409: "It does not fit with what is here.",
    413: "The request is too large.",
    422: "A field is missing, unknown, or out of its bounds.",
    429: "Too many failed; wait as long as Retry-After says.",
}


def refusals(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Return what the description of an API says of answers that refuse."""
    return {
        code: {"model": Refusal, "description": _MEANINGS[code]} for code in sorted({400, 401, 403, 413, 422, *codes})
    }


def make_router(tag: str) -> APIRouter:
    """Return a router below /v1, whose description says that a token is asked for."""
    bearer = Security(HTTPBearer(auto_error=False, scheme_name="token"))
    return APIRouter(prefix="/v1", tags=[tag], dependencies=[bearer])


def address_of(request: Request) -> str:
    """Return where a request comes from, as the connection knows it."""
    return request.client.host if request.client else ""


def caller(node: Node) -> Any:
    """Return a dependency that finds out who asks."""

    def identify(request: Request) -> Principal:
        return _identify(node, request)

    return Depends(identify)


def needs(node: Node, capability: Capability) -> Any:
    """Return a dependency that finds out who asks, and refuses who may not do something."""

    def check(request: Request) -> Principal:
        guest = _identify(node, request)
        if not node.context.door.tokens:
            raise NotPermittedError(
                "This node asks for no tokens, so it can't know its owner over HTTP. Stop it, and use the command "
                "line on its store; or start it with tokens."
            )
        if not may(guest.role, capability):
            raise NotPermittedError(f"A token of role {guest.role!r} may not {capability.value}. Ask the node's owner.")
        return guest

    return Depends(check)


def _identify(node: Node, request: Request) -> Principal:
    guest: Principal = node.context.door.identify(request.headers, address_of(request))
    logger.debug("%s asks for %s %s", guest, request.method, printable(request.url.path)[:200])
    return guest


class PasswordLogin:
    """Does what takes long on purpose: hashing passwords. A few at a time, and few wait."""

    def __init__(self) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="syft login")
        self._inside: Counter[tuple[str, str]] = Counter()

    async def run(self, request: Request, user: str, function: Callable[..., T], *args: Any) -> T:
        """Call a function in a thread.

        Args:
            request: who asks.
            user: whose password it is about.
            function: the function.
            *args: its arguments.

        Raises:
            TooManyAttemptsError: too many wait already, or too many for the same user at the same place.
        """
        place = (user, address_of(request))
        if self._inside.total() >= _WAITING or self._inside[place] >= _WAITING_EACH:
            raise TooManyAttemptsError(1.0)
        self._inside[place] += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, function, *args)
        finally:
            self._inside[place] -= 1
            if not self._inside[place]:
                del self._inside[place]
