"""Responders: answer the requests of one session, in this process or in another."""

from __future__ import annotations

from typing import Any, Protocol

from syft.workers.execution.router import put_back
from syft.workers.execution.session import Session
from syft.workers.transport.pipelined import PipelinedStream
from syft.workers.transport.request_codec import let_go, respond


class Responder(Protocol):
    """Answers the requests of one session."""

    def respond(self, request: bytes | bytearray) -> tuple[Any, Any]:
        """Return the answer, and a handle for the objects that leave with it or None."""
        ...

    def let_go(self, leaving: Any) -> None:
        """Objects that left with an answer have arrived."""
        ...

    def put_back(self, leaving: Any) -> None:
        """Objects that were to leave with an answer stay."""
        ...

    def close(self) -> None:
        """The session ends."""
        ...


class LocalResponder:
    """Answers requests in this process.

    Args:
        session: the session.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def respond(self, request: bytes | bytearray) -> tuple[Any, Any]:
        """Return the answer, and what leaves with it."""
        worker = self._session.worker
        found = respond(worker, self._session, request)
        for stream in list(worker._streams.values()):
            if isinstance(stream, PipelinedStream):
                stream.pass_on()
        return found

    def let_go(self, leaving: Any) -> None:
        """Let go of objects that have arrived."""
        let_go(leaving)

    def put_back(self, leaving: Any) -> None:
        """Keep objects that did not arrive."""
        put_back(leaving)

    def close(self) -> None:
        """Do nothing: the session closes itself."""
