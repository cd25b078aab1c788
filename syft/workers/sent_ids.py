"""SentIds: the ids of objects that this process sent to a worker whose store it can't see at once."""

from __future__ import annotations

import weakref

from syft.core.id_provider import ObjectId

# Ids that are remembered for each worker.
MAX_SENT_IDS = 1 << 16

# (address, token) -> the ids that this process sent there, shared by its client objects.
_shared: weakref.WeakValueDictionary[tuple[str, str | None], SentIds] = weakref.WeakValueDictionary()


def sent_to(url: str, token: str | None) -> SentIds:
    """Return the ids that this process sent to a server as one user, through any of its client objects."""
    return _shared.setdefault((url, token), SentIds())


class SentIds:
    """Ids that are in use at a worker, as far as this process knows. Finalizers of any thread may report releases."""

    def __init__(self) -> None:
        # False where this process has released the object: other clients may still hold it.
        self._held: dict[ObjectId, bool] = {}

    def add(self, obj_id: ObjectId) -> None:
        """Record the id of an object that is being sent; the oldest records are dropped."""
        self._held[obj_id] = True
        if len(self._held) > MAX_SENT_IDS:
            self._held.pop(next(iter(self._held)), None)

    def note_release(self, obj_id: ObjectId, is_gone: bool) -> None:
        """Record that an object was released, so that its id may be free; or that it is gone."""
        if is_gone:
            self._held.pop(obj_id, None)
        elif obj_id in self._held:
            self._held[obj_id] = False

    def holds(self, obj_id: ObjectId, otherwise: bool | None) -> bool | None:
        """Return whether the worker holds an object; None if only the worker knows, `otherwise` for an unknown id."""
        is_held = self._held.get(obj_id)
        return otherwise if is_held is None else (is_held or None)
