"""Lease: the claim of pointers on one remote object.

All pointers of a client to the same object share a lease, so Python's reference counting finds when the last one is
gone. The lease then notifies the worker, without waiting and without raising.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ObjectId
from syft.exceptions import SpentPointerError

if TYPE_CHECKING:
    from syft.workers.transport.stream import Stream

# Whether a leaf of an autograd graph has ever left a worker whose errors are reported later: only then calls look at
# the epochs of their arguments.
any_departed: list[bool] = []


class Lease:
    """The claim of a client on a remote object; the object is deleted with the lease if that is `owned`."""

    __slots__ = ("epoch", "kept", "obj_id", "owned", "pending", "spent", "stream")

    def __init__(self, stream: Stream, obj_id: ObjectId, owned: bool = True) -> None:
        self.stream = stream
        self.obj_id = obj_id
        self.owned = owned
        # A claim that was received with this pointer and is not taken over yet.
        self.pending = False
        # Whether the client's claim on the object outlives this lease (plans, protocols and ObjectWrappers).
        self.kept = False
        self.spent: str | None = None
        # How many leaves had left the worker before the oldest tensor that it was computed from arrived there.
        self.epoch = stream.departed_leaves
        stream.leases += 1

    def check(self) -> None:
        """Raise if the object is known to be gone."""
        if self.spent is not None:
            raise SpentPointerError(self.obj_id, self.stream.location, self.spent)

    def spend(self, cause: str) -> None:
        """Record that the object has left its worker, and why."""
        if self.spent is None:
            self.stream.leases -= 1
        self.spent = cause
        self.owned = False
        self.stream.location._note_release(self.obj_id, is_gone=True)

    def spend_fetched(self, obj: object, owner: Any) -> None:
        """Record that the object was fetched by the owner of the pointer."""
        self.spend(f"it was fetched by {owner.id!r} with .get()")
        self.note_leaf(obj)

    def note_leaf(self, obj: Any) -> None:
        """Record that a tensor has left its worker: if it requires a gradient, earlier results may lead to it."""
        if self.stream.defers_failures and getattr(obj, "requires_grad", False):
            self.stream.departed_leaves += 1
            any_departed[:] = [True]

    def restore(self) -> None:
        """Record that the object is at its worker again."""
        if self.spent is not None:
            self.stream.leases += 1
        self.spent, self.owned = None, True

    def __del__(self) -> None:
        # May run at any time, in any thread, so it only passes the id to the stream.
        if sys.is_finalizing():
            return
        if self.spent is None:
            self.stream.leases -= 1
        if self.owned:
            self.stream.release(self.obj_id)
