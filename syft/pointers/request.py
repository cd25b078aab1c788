"""Request: what `ptr.request(reason="...")` gives: a question to the owner of some data, and how it stands."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from syft.core.labels import printable
from syft.exceptions import CannotRequestObjectAttribute, SyftError

if TYPE_CHECKING:
    from syft.workers.transport.stream import Stream

# How long a reason may be.
MAX_REASON = 250
# Seconds between two looks at a request that waits for its owner: at first, and at most.
_FIRST_LOOK, _LAST_LOOK = 0.02, 2.0


class Request:
    """A question to the owner of some data.

    Args:
        stream: the stream to the worker that was asked.
        row: what the worker answered.
        names: the names of the objects, if a dictionary was asked for.
    """

    def __init__(self, stream: Stream, row: dict[str, Any], names: tuple[str, ...] | None = None) -> None:
        self._stream = stream
        self._row = dict(row)
        self._names = names

    def get(self) -> Any:
        """Return the released copy: the object, or those that were asked for together as a dictionary or a tuple.

        It is the copy that was sealed when you asked. It can be fetched from any session, until the approval expires.
        """
        found = self._stream.released(self.id)
        if self._names is None:
            return found
        return dict(zip(self._names, found if len(self._names) > 1 else (found,), strict=True))

    @property
    def id(self) -> str:
        """What the owner knows the request by."""
        return str(self._row["id"])

    @property
    def reason(self) -> str:
        """What was written to the owner."""
        return str(self._row["reason"])

    @property
    def answer(self) -> str:
        """What the owner wrote back, as of the last `status()`."""
        return printable(self._row.get("answer") or "")

    def status(self) -> str:
        """Ask how the request stands: pending, approved, denied, expired or revoked."""
        self._row = dict(self._stream.request_status(self.id))
        return str(self._row["status"])

    def wait(self, timeout: float = 60.0) -> str:
        """Wait until the owner has decided, or for so many seconds; returns how the request stands."""
        end = time.monotonic() + timeout
        pause = _FIRST_LOOK
        status = self.status()
        nothing = threading.Event()
        while status == "pending" and time.monotonic() < end:
            nothing.wait(min(pause, max(0.0, end - time.monotonic())))
            pause = min(2 * pause, _LAST_LOOK)
            status = self.status()
        return status

    def __repr__(self) -> str:
        answer = f": {self.answer}" if self.answer else ""
        return f"<Request {self.id} to {self._stream.location.id!r}: {self._row['status']}{answer}>"


def request_together(pointers: list[Any], reason: str, names: tuple[str, ...] | None = None) -> Request:
    """Ask for several objects of one worker with one request.

    Args:
        pointers: pointers to the objects.
        reason: what they are needed for; the owner reads it.
        names: the names of the objects; `Request.get` then gives a dictionary.
    """
    if not pointers:
        raise SyftError("A request needs at least one pointer.")
    if len(reason) > MAX_REASON:
        raise SyftError(f"A reason has at most {MAX_REASON} characters; this one has {len(reason)}.")
    streams = {id(pointer.lease.stream): pointer.lease.stream for pointer in pointers}
    if len(streams) > 1:
        raise SyftError("The objects of one request are at one worker; ask each worker by itself.")
    for pointer in pointers:
        if pointer.point_to_attr is not None:
            raise CannotRequestObjectAttribute(pointer.point_to_attr)
        pointer.lease.check()
    (stream,) = streams.values()
    ids = tuple(pointer.id_at_location for pointer in pointers)
    return Request(stream, stream.request_release(ids, reason), names)
