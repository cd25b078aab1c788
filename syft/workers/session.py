"""Session: what a worker knows of one connected client."""

from __future__ import annotations

from typing import Any

from syft.core.id_provider import ObjectId


class Session:
    """One client at one worker; its temporaries go when it ends.

    Args:
        worker: the worker.
        client_id: who the client is, as the connection knows it (never as a message says).
    """

    def __init__(self, worker: Any, client_id: object) -> None:
        self.worker = worker
        self.client_id = client_id
        self.temporaries: set[ObjectId] = set()

    def keep(self, obj_id: ObjectId, obj: Any, published: bool = False) -> None:
        """Store an object for the client; unless published it goes with the session at the latest."""
        self.worker.object_store.objects[obj_id] = obj
        if not published:
            self.temporaries.add(obj_id)

    def release(self, obj_id: ObjectId) -> None:
        """Drop one claim of the client on an object. Never raises."""
        self.worker.object_store.release(obj_id)
        self.temporaries.discard(obj_id)

    def close(self) -> None:
        """Delete the temporaries of the client."""
        for obj_id in list(self.temporaries):
            self.worker.object_store.release(obj_id)
        self.temporaries.clear()
        if self in self.worker._sessions:
            self.worker._sessions.remove(self)
