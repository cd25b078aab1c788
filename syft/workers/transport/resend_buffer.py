"""ResendBuffer: requests that were sent and not confirmed, which are sent again after a lost connection."""

from __future__ import annotations

import collections
from collections.abc import Iterator

from syft.exceptions import SyftError

# Connections over which one request is sent again: a request that breaks each of them is the cause.
MAX_RESENDS = 3


class ResendBuffer:
    """Unconfirmed requests in order; its stream holds the lock.

    Attributes:
        bytes: their size.
        resends: how often the first of them was sent again.
    """

    def __init__(self) -> None:
        self._requests: collections.deque[tuple[int, bytes]] = collections.deque()
        self.bytes = 0
        self.resends = 0
        self._resent = 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return iter(self._requests)

    def add(self, number: int, request: bytes) -> None:
        """Keep a request until it is confirmed."""
        self._requests.append((number, request))
        self.bytes += len(request)

    def confirm(self, number: int) -> None:
        """Drop the requests up to a number."""
        while self._requests and self._requests[0][0] <= number:
            self.bytes -= len(self._requests.popleft()[1])

    def count_resend(self) -> None:
        """Count that the requests are sent again; SyftError if the first of them was resent too often."""
        first = self._requests[0][0] if self._requests else 0
        self.resends = self.resends + 1 if first and first == self._resent else int(bool(first))
        self._resent = first
        if self.resends > MAX_RESENDS:
            raise SyftError(
                f"a request of {len(self._requests[0][1])} bytes was sent over {self.resends} connections, and each "
                "was lost before it was done. The network may be too unreliable for its size: send less in one message"
            )

    def clear(self) -> None:
        """Drop all requests."""
        self._requests.clear()
        self.bytes = 0
