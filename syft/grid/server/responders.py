"""Responders: process the requests of one session, in this process or in another."""

from __future__ import annotations

from typing import Any, Protocol

from syft.workers.execution.router import put_back
from syft.workers.execution.session import Session
from syft.workers.transport.pipelined import pass_on_releases
from syft.workers.transport.request_codec import let_go, respond


class Responder(Protocol):
    """Processes the requests of one session."""

    def respond(self, request: bytes | bytearray) -> tuple[Any, Any]:
        """Return the response, and a handle of the objects that leave with it, or None."""
        ...

    def let_go(self, leaving: Any) -> None:
        """Release objects that have arrived with a response."""
        ...

    def put_back(self, leaving: Any) -> None:
        """Keep objects that could not leave with a response."""
        ...

    def close(self) -> None:
        """End the session."""
        ...


class LocalResponder:
    """Processes requests in this process."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def respond(self, request: bytes | bytearray) -> tuple[Any, Any]:
        """Return the response, and the objects that leave with it."""
        worker = self._session.worker
        found = respond(worker, self._session, request)
        pass_on_releases(worker)
        return found

    let_go = staticmethod(let_go)
    put_back = staticmethod(put_back)

    def close(self) -> None:
        """Do nothing: the session closes itself."""
