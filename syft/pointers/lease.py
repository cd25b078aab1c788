"""Lease: the claim of pointers on one remote object.

All pointers of a client to the same object share a lease, so Python's own counting tells when the last one is
gone; the lease then tells the worker, on the stream, without waiting and without ever raising.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from syft.core.id_provider import ObjectId
from syft.exceptions import SpentPointerError

if TYPE_CHECKING:
    from syft.workers.transport.stream import Stream


class Lease:
    """The claim of a client on a remote object.

    Args:
        stream: the stream of the client to the worker that holds the object.
        obj_id: the object's id there.
        owned: whether the object goes when the lease goes.
    """

    __slots__ = ("obj_id", "owned", "pending", "spent", "stream")

    def __init__(self, stream: Stream, obj_id: ObjectId, owned: bool = True) -> None:
        self.stream = stream
        self.obj_id = obj_id
        self.owned = owned
        # A claim that came along with this pointer and is not taken over yet.
        self.pending = False
        self.spent: str | None = None

    def check(self) -> None:
        """Raise if the object is known to be gone."""
        if self.spent is not None:
            raise SpentPointerError(self.obj_id, self.stream.location, self.spent)

    def spend(self, cause: str) -> None:
        """Note that the object has left its worker, and why."""
        self.spent = cause
        self.owned = False

    def __del__(self) -> None:
        # Runs at any time, in any thread, at interpreter exit too: only hand the id to the stream.
        if self.owned and not sys.is_finalizing():
            self.stream.release(self.obj_id)
