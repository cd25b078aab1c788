"""The objects of a worker whose published ones are on disk: a dict that reads them when they are asked for."""

from __future__ import annotations

from collections.abc import ItemsView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ObjectId
from syft.core.object_storage import ObjectOutline

if TYPE_CHECKING:
    from syft.grid.storage.quotas import QuotaLedger

_NOTHING: Any = object()


class LazyObjects(dict[ObjectId, Any]):
    """Objects by id; what is not in memory yet is an Outline below, and is never handed out.

    Every insertion and removal goes through the object manager.

    Args:
        object_manager: reads, writes and removes objects.
        stored: those that are on disk, by id.
        ledger: who counts all of them.
    """

    def __init__(self, object_manager: Any, stored: dict[ObjectId, Any], ledger: QuotaLedger) -> None:
        super().__init__()
        self.object_manager = object_manager
        self._stored = stored
        self._ledger = ledger

    def __getitem__(self, key: ObjectId) -> Any:
        found = dict.__getitem__(self, key)
        return self.object_manager.load(key) if type(found) is ObjectOutline else found

    def get(self, key: ObjectId, default: object = None) -> Any:
        """Return an object, or the default."""
        try:
            return self[key]
        except KeyError:
            return default

    def __setitem__(self, key: ObjectId, obj: object) -> None:
        if key in self._ledger.entries and key not in self:  # a session has asked for it: the common case
            dict.__setitem__(self, key, obj)
        else:
            self.object_manager.place(key, obj)

    def setdefault(self, key: ObjectId, default: object = None) -> Any:
        """Return an object, putting the default in its place if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *args: Any, **kwargs: object) -> None:
        """Put several objects in."""
        for key, obj in dict(*args, **kwargs).items():
            self[key] = obj

    def __ior__(self, other: Any) -> LazyObjects:  # type: ignore[override,misc]
        self.update(other)
        return self

    def __delitem__(self, key: ObjectId) -> None:
        if key not in self:
            raise KeyError(key)
        self.object_manager.drop(key)

    def pop(self, key: ObjectId, default: object = _NOTHING) -> Any:
        """Take an object out.

        One that is not in memory is not read for this: whoever wants it has asked for it before.
        """
        if key not in self._stored:
            found = dict.pop(self, key, _NOTHING)
            if found is not _NOTHING:
                self._ledger.release(key)
                return found
        else:
            found = dict.get(self, key, _NOTHING)
        if found is not _NOTHING:
            self.object_manager.drop(key)
            return None if type(found) is ObjectOutline else found
        if default is _NOTHING:
            raise KeyError(key)
        return default

    def popitem(self) -> tuple[ObjectId, Any]:
        """Take the last object out."""
        if not self:
            raise KeyError("there is no object")
        key = next(reversed(self))
        obj = self[key]
        self.object_manager.drop(key)
        return key, obj

    def clear(self) -> None:
        """Take everything out."""
        for key in list(self):
            self.pop(key, None)

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        """Return a view of the objects, each read when it is come to."""
        return ValuesView(_Reading(self))

    def items(self) -> ItemsView[ObjectId, Any]:  # type: ignore[override]
        """Return a view of ids and objects, each read when it is come to."""
        return ItemsView(_Reading(self))

    def copy(self) -> dict[ObjectId, Any]:
        """Return all objects by id, read; `ObjectStore.outlines` reads nothing."""
        return {key: self[key] for key in list(self)}


class _Reading(Mapping[ObjectId, Any]):
    """Objects by id, for views: reading one changes the dict below, so the ids are taken first."""

    def __init__(self, objects: LazyObjects) -> None:
        self._objects = objects
        self._keys = list(objects)

    def __getitem__(self, key: ObjectId) -> Any:
        return self._objects[key]

    def __iter__(self) -> Any:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
