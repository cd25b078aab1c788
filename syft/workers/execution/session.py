"""Session: what a worker knows of one connected client."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from syft.core.byte_budget import ByteBudget
from syft.core.id_provider import ObjectId, check_user_id

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

# The session for which this thread answers a message that came over a wire.
serving: contextvars.ContextVar[Session | None] = contextvars.ContextVar("syft_serving", default=None)


class Session:
    """One client at one worker; its temporaries go when it ends.

    Args:
        worker: the worker.
        client_id: who the client is, as the connection knows it (never as a message says).
    """

    # Whether messages of this session come in a thread of their own, so that answering one may wait for others.
    may_wait = False
    # The messages that the client may send, and what is done with them; None: all that a worker answers.
    routes: Mapping[type, Any] | None = None
    # Whether it is told where in the worker's code something went wrong, as far as the policy lets error texts out.
    is_told_where = True
    # What the client is at this worker, as its connection knows it: "owner" or "user".
    role: str = "user"
    # Whom the client made known to the worker over this session, if anybody (see circles).
    circle: Any = None
    # What a server knows of the client's connections, if it came to one.
    conversation: Any = None
    # What the client's connection is for, if not for everything: `model:NAME`, or `dealer:NAME` (see grid.isolation).
    purpose: str = ""
    # The worker that acts for the client in this session; None: the client itself.
    via: ObjectId | None = None
    # The largest message that is read, after decompression; None: what the configuration says.
    max_message_bytes: int | None = None
    # The bytes that may be in flight for the client; None: any number.
    byte_budget: ByteBudget | None = None

    # How many requests failed that the client did not wait for.
    failures = 0
    # Whether it has ended: what a call that was under way then makes goes at once.
    is_closed = False

    def __init__(self, worker: BaseWorker, client_id: object) -> None:
        self.worker = worker
        self.client_id = client_id

    def check(self) -> None:
        """Raise AuthenticationError if the client may not stay."""
        if self.conversation is not None:
            self.conversation.check()

    def check_stay(self) -> None:
        """Do the same now and then: cheap enough for every call."""
        if self.conversation is not None:
            self.conversation.check_stay()

    @property
    def reader(self) -> Any:
        """The worker as which the client's bytes are read: pointers in them are looked up there."""
        return self.worker

    @property
    def temporaries(self) -> list[ObjectId]:
        """The ids of the objects that go with this session at the latest."""
        return list(self.worker.object_store.claims.held_by(self))

    def keep(self, obj_id: ObjectId, obj: object, published: bool = False, is_own_id: bool = True) -> None:
        """Store an object for the client; unless published it goes with the session at the latest.

        Args:
            obj_id: its id.
            obj: the object.
            published: whether it stays until it is deleted.
            is_own_id: whether the client chose the id; False if the worker did, or has approved it before.
        """
        if is_own_id and not self.worker.takes_any_id:
            check_user_id(obj_id)
        store = self.worker.object_store
        if store.keeper is not None:
            store.keeper.admit(self, obj_id, obj, published)
        store.objects[obj_id] = obj
        if published:
            store.claims.publish(obj_id, self.client_id)
        else:
            store.claims.hold(obj_id, self)
            if self.is_closed:  # looked at once the claim is there: this sees the end, or the end sees the claim
                self.release(obj_id)

    def release(self, obj_id: ObjectId) -> None:
        """Drop one claim of the client on an object. Never raises."""
        store = self.worker.object_store
        if store.claims.release(obj_id, self):
            store.objects.pop(obj_id, None)

    def close(self) -> None:
        """Drop every claim of the client."""
        self.is_closed = True
        if self.circle is not None and self.circle.session is self:
            self.circle.close()
        store = self.worker.object_store
        for obj_id in self.temporaries:
            self.release(obj_id)
        for obj_id in store.claims.withdraw(self):
            store.objects.pop(obj_id, None)
        if self in self.worker._sessions:
            self.worker._sessions.remove(self)
