"""Session: the state of one connected client at a worker."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from syft.core.byte_budget import ByteBudget
from syft.core.id_provider import ObjectId, check_user_id

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

# The session of the request that this thread serves.
serving: contextvars.ContextVar[Session | None] = contextvars.ContextVar("syft_serving", default=None)


class Session:
    """One client at one worker, by its authenticated id; its temporary objects are deleted when it ends."""

    # Whether its messages are served in a thread of its own, so that a handler may wait for other sessions.
    may_wait = False
    # The messages that the client may send, with their handlers; None: all.
    routes: Mapping[type, Any] | None = None
    # Whether errors carry the traceback of the worker, as far as the policy releases error texts.
    sends_tracebacks = True
    # The authenticated role of the client at this worker: "owner" or "user".
    role: str = "user"
    # The delegation of the client over this session, if it introduced workers (see delegation.grants).
    delegation: Any = None
    # The resumable session of a server, if the client connected to one.
    conversation: Any = None
    # The purpose of the client's connection, if limited: `model:NAME`, or `dealer:NAME` (see grid.isolation).
    purpose: str = ""
    # The worker that acts for the client in this session; None: the client itself.
    via: ObjectId | None = None
    # Bytes of the largest message that is read, after decompression; None: the configured limit.
    max_message_bytes: int | None = None
    # The bytes that may be in flight for the client; None: no limit.
    byte_budget: ByteBudget | None = None

    # Failed requests that the client did not wait for.
    failures = 0
    # Whether it has ended: objects that a running call stores then are deleted at once.
    is_closed = False

    def __init__(self, worker: BaseWorker, client_id: object) -> None:
        self.worker = worker
        self.client_id = client_id

    def check(self) -> None:
        """Raise AuthenticationError if the client may not stay."""
        if self.conversation is not None:
            self.conversation.check()

    def check_stay(self) -> None:
        """Do the same at intervals: cheap enough for every call."""
        if self.conversation is not None:
            self.conversation.check_stay()

    @property
    def reader(self) -> Any:
        """The worker that resolves the pointers in the client's messages."""
        return self.worker

    @property
    def temporaries(self) -> list[ObjectId]:
        """The ids of the objects that are deleted with this session at the latest."""
        return list(self.worker.object_store.claims.held_by(self))

    def keep(self, obj_id: ObjectId, obj: object, published: bool = False, is_own_id: bool = True) -> None:
        """Store an object for the client; unless published it is deleted with the session at the latest.

        `is_own_id` is False if the worker chose the id, or approved it before.
        """
        if is_own_id and not self.worker.takes_any_id:
            check_user_id(obj_id)
        store = self.worker.object_store
        if store.object_manager is not None:
            store.object_manager.admit(self, obj_id, obj, published)
        store.objects[obj_id] = obj
        if published:
            store.claims.publish(obj_id, self.client_id)
        else:
            store.claims.hold(obj_id, self)
            if self.is_closed:  # checked once the claim exists: either this sees the end, or the end sees the claim
                self.release(obj_id)

    def release(self, obj_id: ObjectId) -> None:
        """Drop one claim of the client on an object. Never raises."""
        store = self.worker.object_store
        if store.claims.release(obj_id, self):
            store.objects.pop(obj_id, None)

    def close(self) -> None:
        """Drop every claim of the client."""
        self.is_closed = True
        if self.delegation is not None and self.delegation.session is self:
            self.delegation.close()
        store = self.worker.object_store
        for obj_id in self.temporaries:
            if self.worker.keeps_lasting_objects and getattr(store.objects.get(obj_id), "is_lasting", False):
                store.claims.publish(obj_id, self.client_id)
            self.release(obj_id)
        for obj_id in store.claims.withdraw(self):
            store.objects.pop(obj_id, None)
        if self in self.worker._sessions:
            self.worker._sessions.remove(self)
