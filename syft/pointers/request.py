"""Request: the result of `ptr.request(reason="...")`: a request to the owner of an object, and its status."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from syft.core.id_provider import short_id
from syft.core.labels import printable
from syft.display.facts import FactList, Shown, time_text
from syft.exceptions import CannotRequestObjectAttributeError, SyftError

if TYPE_CHECKING:
    from syft.workers.transport.stream import Stream

# Maximum length of a reason.
MAX_REASON = 250
# Seconds between polls of a pending request: first, and maximum.
_FIRST_POLL, _MAX_POLL = 0.02, 2.0


class Request(Shown):
    """A request to the owner of an object.

    Args:
        stream: the stream to the worker.
        row: the response of the worker.
        names: the names of the objects, if a dictionary was requested.
    """

    def __init__(self, stream: Stream, row: dict[str, Any], names: tuple[str, ...] | None = None) -> None:
        self._stream = stream
        self._row = dict(row)
        self._names = names

    def get(self) -> Any:
        """Return the released copy: the object, or a dictionary or tuple of objects requested together.

        It is the copy that was sealed at the time of the request. Any session can fetch it until the approval expires.
        """
        found = self._stream.released(self.id)
        if self._names is None:
            return found
        return dict(zip(self._names, found if len(self._names) > 1 else (found,), strict=True))

    @property
    def id(self) -> str:
        """The id of the request."""
        return str(self._row["id"])

    @property
    def reason(self) -> str:
        """The reason sent to the owner."""
        return str(self._row["reason"])

    @property
    def answer(self) -> str:
        """The answer of the owner, as of the last `status()`."""
        return printable(self._row.get("answer") or "")

    def status(self) -> str:
        """Return the status of the request: pending, approved, denied, expired or revoked."""
        self._row = dict(self._stream.request_status(self.id))
        return str(self._row["status"])

    def wait(self, timeout: float = 60.0) -> str:
        """Wait for the owner's decision, at most `timeout` seconds; returns the status."""
        end = time.monotonic() + timeout
        pause = _FIRST_POLL
        status = self.status()
        never = threading.Event()
        while status == "pending" and time.monotonic() < end:
            never.wait(min(pause, max(0.0, end - time.monotonic())))
            pause = min(2 * pause, _MAX_POLL)
            status = self.status()
        return status

    def _facts(self) -> FactList:
        row = self._row
        yield from (("id", self.id), ("at", self._stream.location.id), ("status", row["status"]))
        yield from (("answer", self.answer), ("reason", self.reason))
        yield "objects", ", ".join(self._names) if self._names else _object_text(row.get("object"))
        for name, key in (("made", "at"), ("decided", "decided_at"), ("expires", "expires_at")):
            yield name, time_text(row.get(key))

    def __repr__(self) -> str:
        answer = f": {self.answer}" if self.answer else ""
        return f"<Request {self.id} to {self._stream.location.id!r}: {self._row['status']}{answer}>"


def _object_text(obj_id: Any) -> str | None:
    return None if obj_id is None else short_id(obj_id)


def request_together(pointers: list[Any], reason: str, names: tuple[str, ...] | None = None) -> Request:
    """Request objects of one worker together; with their names `Request.get` returns a dictionary."""
    if not pointers:
        raise SyftError("request() needs at least one pointer.")
    if len(reason) > MAX_REASON:
        raise SyftError(f"A reason may have at most {MAX_REASON} characters, got {len(reason)}.")
    streams = {id(pointer.lease.stream): pointer.lease.stream for pointer in pointers}
    if len(streams) > 1:
        raise SyftError("The objects of one request must be at one worker. Make one request per worker.")
    for pointer in pointers:
        if pointer.point_to_attr is not None:
            raise CannotRequestObjectAttributeError(pointer.point_to_attr)
        pointer.lease.check()
    (stream,) = streams.values()
    ids = tuple(pointer.id_at_location for pointer in pointers)
    return Request(stream, stream.request_release(ids, reason), names)
