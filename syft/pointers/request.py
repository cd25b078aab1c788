"""Request: what `ptr.request(reason="...")` gives: a question to the owner of some data, and how it stands."""

from __future__ import annotations

import threading
import time
from typing import Any

from syft.core.labels import printable

# How long a reason may be.
MAX_REASON = 250
# Seconds between two looks at a request that waits for its owner: at first, and at most.
_FIRST_LOOK, _LAST_LOOK = 0.02, 2.0


class Request:
    """A question to the owner of some data.

    Args:
        stream: the stream to the worker that was asked.
        row: what the worker answered.
    """

    def __init__(self, stream: Any, row: dict[str, Any]) -> None:
        self._stream = stream
        self._row = dict(row)

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
