"""The published objects of a worker on disk: writing them and writing them again."""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import TYPE_CHECKING

import torch

from syft.core.id_provider import ObjectId
from syft.core.object_storage import ObjectOutline
from syft.core.references import ObjectMeta, TensorMeta
from syft.exceptions import ObjectNotFoundError, StorageError
from syft.federated.client.stored_dataset import StoredDataset
from syft.grid.storage.dirty_tracking import DirtyTracker, labels_of
from syft.grid.storage.interface import Facts, Item, Storage, checksum_of
from syft.grid.storage.lazy_objects import LazyObjects
from syft.grid.storage.quotas import QuotaLedger, memory_of
from syft.serde import serialize
from syft.workers.execution.copies import pointers_in
from syft.workers.execution.execute import kind_of

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker


class ObjectArchive:
    """The descriptions of the published objects of a worker, and access to their bytes.

    Args:
        worker: the worker.
        storage: the store; None: in memory only.
        ledger: the quota ledger that counts them.
    """

    def __init__(self, worker: BaseWorker, storage: Storage | None, ledger: QuotaLedger) -> None:
        self.worker = worker
        self.storage = storage
        self.ledger = ledger
        self._items: dict[ObjectId, Item] = {}
        self.objects = LazyObjects(self, self._items, ledger)
        self._tracker = DirtyTracker()
        self._lock = threading.RLock()

    def facts(self, obj_id: ObjectId) -> Facts:
        """Return the owner and the readers of a stored object."""
        if obj_id not in self._items:
            raise ObjectNotFoundError(obj_id, self.worker.id, "it is not stored")
        return self._items[obj_id].facts

    def item(self, obj_id: ObjectId) -> Item | None:
        """Return a stored object without its value."""
        return self._items.get(obj_id)

    def value(self, item: Item) -> memoryview:
        """Return the bytes of a stored object."""
        if self.storage is None:
            return memoryview(serialize(self.objects[item.id], self.worker))
        return self.storage.read(item)

    def items(self) -> list[Item]:
        """Return the stored objects without their values, the oldest first."""
        return sorted(self._items.values(), key=lambda item: item.created)

    def _store(self) -> Storage:
        if self.storage is None:
            raise StorageError("This worker has no store on disk.")
        return self.storage

    @staticmethod
    def _put(storage: Storage, item: Item, value: bytes, before: Item | None) -> Item:
        """Write a value, or only its description if the value is unchanged."""
        checksum = checksum_of(value)
        if before is None or before.checksum != checksum:
            return storage.put(item, value, checksum)
        item = dataclasses.replace(item, size=before.size, stamp=before.stamp, checksum=checksum)
        return item if item == before else storage.amend(item)

    def _write(self, obj_id: ObjectId, obj: object, facts: Facts, origin: str = "") -> None:
        """Write an object as it is now.

        A pointer is not written: the claim on its target ends with this process.
        """
        before = self._items.get(obj_id)
        if pointers_in(obj):
            if before is not None:
                if self.storage is not None:
                    self.storage.remove(obj_id, before.stamp)
                del self._items[obj_id]
            return
        tags, description = labels_of(obj)
        facts = _with_parts(obj, _named(facts))
        meta = TensorMeta.of_copy(obj) if isinstance(obj, torch.Tensor) else ObjectMeta(kind_of(obj))
        item = Item(
            obj_id,
            meta,
            tags,
            description,
            facts,
            memory=sum(memory_of(obj).values()),
            created=0.0 if before is None else before.created,
            origin=origin,
        )
        if self.storage is None:
            item = dataclasses.replace(item, created=item.created or time.time())
        else:
            item = self._put(self.storage, item, serialize(obj, self.worker), before)
        with self._lock:
            self._items[obj_id] = item
            self._tracker.track(obj_id, obj)

    def _amend(self, item: Item, obj: object) -> None:
        """Write labels again."""
        tags, description = labels_of(obj)
        new = dataclasses.replace(item, tags=tags, description=description)
        if new != item:
            self._items[item.id] = new if self.storage is None else self.storage.amend(new)
        if type(obj) is not ObjectOutline:
            self._tracker.track(item.id, obj)


def _named(facts: Facts) -> Facts:
    """Return facts without an anonymous owner: an anonymous client can't be recognised after a restart."""
    return facts if isinstance(facts.owner, str | int) else dataclasses.replace(facts, owner=None)


def _with_parts(obj: object, facts: Facts) -> Facts:
    """Add the specs of the tensors of a data set, which are then available without reading it."""
    if not isinstance(obj, StoredDataset):
        return facts
    specs = [("tensor", list(t.shape), str(t.dtype).removeprefix("torch."), False) for t in obj.contents()]
    return dataclasses.replace(facts, notes={**facts.notes, "parts": specs})
