"""Session: what a worker knows of one connected client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from syft.core.id_provider import ObjectId


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
    # The largest message that is read, after decompression; None: what the configuration says.
    max_message_bytes: int | None = None

    def __init__(self, worker: Any, client_id: object) -> None:
        self.worker = worker
        self.client_id = client_id

    @property
    def reader(self) -> Any:
        """The worker as which the client's bytes are read: pointers in them are looked up there."""
        return self.worker

    @property
    def temporaries(self) -> list[ObjectId]:
        """The ids of the objects that go with this session at the latest."""
        return list(self.worker.object_store.claims.held_by(self))

    def keep(self, obj_id: ObjectId, obj: Any, published: bool = False) -> None:
        """Store an object for the client; unless published it goes with the session at the latest."""
        store = self.worker.object_store
        store.objects[obj_id] = obj
        if published:
            store.claims.publish(obj_id, self.client_id)
        else:
            store.claims.hold(obj_id, self)

    def release(self, obj_id: ObjectId) -> None:
        """Drop one claim of the client on an object. Never raises."""
        store = self.worker.object_store
        if store.claims.release(obj_id, self):
            store.objects.pop(obj_id, None)

    def close(self) -> None:
        """Drop every claim of the client."""
        store = self.worker.object_store
        for obj_id in self.temporaries:
            self.release(obj_id)
        for obj_id in store.claims.withdraw(self):
            store.objects.pop(obj_id, None)
        if self in self.worker._sessions:
            self.worker._sessions.remove(self)
