"""LazyObjects: a dict of the objects of a worker that reads published ones from disk on access."""

from __future__ import annotations

from collections.abc import ItemsView, Mapping, MutableMapping, ValuesView
from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ObjectId
from syft.core.object_storage import ObjectOutline

if TYPE_CHECKING:
    from syft.grid.storage.quotas import QuotaLedger

_MISSING: Any = object()


class LazyObjects(dict[ObjectId, Any]):
    """Objects by id; an object that is not in memory is stored as an ObjectOutline, which is never returned.

    Every insertion and removal goes through the object manager.
    """

    def __init__(self, object_manager: Any, stored: dict[ObjectId, Any], ledger: QuotaLedger) -> None:
        super().__init__()
        self.object_manager = object_manager
        self._stored = stored
        self._ledger = ledger

    def __getitem__(self, key: ObjectId) -> Any:
        found = dict.__getitem__(self, key)
        return self.object_manager.load(key) if type(found) is ObjectOutline else found

    def __setitem__(self, key: ObjectId, obj: object) -> None:
        if key in self._ledger.entries and key not in self:  # a session has charged it: the common case
            dict.__setitem__(self, key, obj)
        else:
            self.object_manager.insert(key, obj)

    # These go through the methods of this class, which those of dict would bypass.
    get = MutableMapping.get  # type: ignore[assignment]
    setdefault = MutableMapping.setdefault
    update = MutableMapping.update
    popitem = MutableMapping.popitem

    def __ior__(self, other: Any) -> LazyObjects:  # type: ignore[override,misc]
        self.update(other)
        return self

    def __delitem__(self, key: ObjectId) -> None:
        if key not in self:
            raise KeyError(key)
        self.object_manager.drop(key)

    def pop(self, key: ObjectId, default: object = _MISSING) -> Any:
        """Remove an object and return it.

        An object that is not in memory is not read for this; None is returned.
        """
        if key not in self._stored:
            found = dict.pop(self, key, _MISSING)
            if found is not _MISSING:
                self._ledger.release(key)
                return found
        else:
            found = dict.get(self, key, _MISSING)
        if found is not _MISSING:
            self.object_manager.drop(key)
            return None if type(found) is ObjectOutline else found
        if default is _MISSING:
            raise KeyError(key)
        return default

    def clear(self) -> None:
        """Remove all objects."""
        for key in list(self):
            self.pop(key, None)

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        """Return a view of the objects, each read when the iteration reaches it."""
        return ValuesView(_Snapshot(self))

    def items(self) -> ItemsView[ObjectId, Any]:  # type: ignore[override]
        """Return a view of ids and objects, each read when the iteration reaches it."""
        return ItemsView(_Snapshot(self))

    def copy(self) -> dict[ObjectId, Any]:
        """Return all objects by id; all are read (`ObjectStore.outlines` reads none)."""
        return {key: self[key] for key in list(self)}


class _Snapshot(Mapping[ObjectId, Any]):
    """Objects by id, for views: reading one changes the dict, so the ids are copied first."""

    def __init__(self, objects: LazyObjects) -> None:
        self._objects = objects
        self._keys = list(objects)

    def __getitem__(self, key: ObjectId) -> Any:
        return self._objects[key]

    def __iter__(self) -> Any:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
