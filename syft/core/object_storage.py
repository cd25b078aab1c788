"""ObjectStorage: the objects a worker holds, by id."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

from syft.config import current
from syft.core.claims import Claims
from syft.core.id_provider import ID_PROVIDER, ObjectId, find_named
from syft.exceptions import ObjectNotFoundError


@dataclasses.dataclass(eq=False)
class ObjectOutline:
    """The metadata of an object that is stored elsewhere and read at its first use."""

    id: ObjectId
    meta: Any
    tags: set[str]
    description: str | None


class ObjectStore:
    """Objects by id, and the claims that keep each alive.

    Reads, writes and deletions are single dictionary operations, so threads and finalizers may do them at any time.

    Attributes:
        object_manager: counts the stored objects and writes them to disk; None without storage.
    """

    object_manager: Any = None

    def __init__(self, worker_id: object) -> None:
        self.worker_id = worker_id
        self.objects: dict[ObjectId, Any] = {}
        self.claims = Claims()
        self._departed: dict[ObjectId, str] = {}
        self._lock = threading.RLock()

    def get(self, obj_id: ObjectId) -> Any:
        """Return an object."""
        try:
            return self.objects[obj_id]
        except KeyError:
            raise ObjectNotFoundError(obj_id, self.worker_id, self._departed.get(obj_id, "")) from None

    def outlines(self) -> dict[ObjectId, Any]:
        """Return a copy of the objects by id, without reading any: those not in memory are an ObjectOutline."""
        return dict.copy(self.objects)

    def pop(self, obj_id: ObjectId, departure: str) -> Any:
        """Remove and return an object, and record the reason for later errors."""
        obj = self.get(obj_id)
        self.remove(obj_id)
        self.note_departure(obj_id, departure)
        return obj

    def note_departure(self, obj_id: ObjectId, cause: str) -> None:
        """Record why an id is no longer here; the oldest records are dropped."""
        with self._lock:
            self._departed[obj_id] = cause
            while len(self._departed) > current().max_departed:
                del self._departed[next(iter(self._departed))]

    def remove(self, obj_id: ObjectId) -> None:
        """Delete an object and all claims on it; silent if it is not there."""
        self.objects.pop(obj_id, None)
        self.claims.forget(obj_id)

    def clear(self) -> None:
        """Delete everything."""
        self.objects.clear()
        self.claims.clear()
        self._departed.clear()


class ObjectStorage:
    """The documented interface of a store, for classes that hold objects."""

    def __init__(self, store_id: object = None) -> None:
        self.object_store = ObjectStore(store_id)

    @property
    def _objects(self) -> dict[ObjectId, Any]:
        """The objects held, by id; setting them replaces all, with the claims on them."""
        return self.object_store.objects

    @_objects.setter
    def _objects(self, objects: dict[ObjectId, Any]) -> None:
        held = dict(objects)
        self.object_store.clear()
        self.object_store.objects.update(held)

    def register_obj(self, obj: Any, obj_id: ObjectId | None = None) -> None:
        """Store an object, under another id if one is given."""
        if obj_id is not None:
            obj.id = obj_id
        self.set_obj(obj)

    def de_register_obj(self, obj: Any, _recurse_torch_objs: bool = True) -> None:
        """Remove an object from the store; it then has no owner."""
        self.object_store.remove(obj.id)
        if getattr(obj, "location", None) is None:  # a pointer is of no use without its owner
            obj.owner = None
        child = getattr(obj, "child", None)
        if _recurse_torch_objs and child is not None and hasattr(child, "id"):
            self.object_store.remove(child.id)

    def get_obj(self, obj_id: ObjectId) -> Any:
        """Return the object of this id; the first digits of an id, as texts show it, are enough."""
        named = find_named(obj_id, self.object_store.objects)
        return self.object_store.get(obj_id if named is None else named)

    def set_obj(self, obj: Any) -> None:
        """Store an object under its own id."""
        if getattr(obj, "id", None) is None:
            obj.id = ID_PROVIDER.pop()
        self.object_store.objects[obj.id] = obj

    def rm_obj(self, remote_key: ObjectId) -> None:
        """Remove the object of this id; silent if it is not there."""
        self.object_store.remove(remote_key)

    def force_rm_obj(self, remote_key: ObjectId) -> None:
        """Remove the object of this id, and the object that it points to."""
        obj = self._objects.get(remote_key)
        for pointer in (obj, getattr(obj, "child", None)):
            lease = getattr(pointer, "__dict__", {}).get("lease")
            if lease is not None and lease.spent is None and not lease.owned:  # an owning pointer deletes it anyway
                pointer.delete()  # type: ignore[union-attr]
        self.object_store.remove(remote_key)

    def clear_objects(self, return_self: bool = True) -> Any:
        """Empty the store."""
        self.object_store.clear()
        return self if return_self else None

    def current_objects(self) -> dict[ObjectId, Any]:
        """Return a shallow copy of the objects by id."""
        return self._objects.copy()
