"""The published objects of a worker on disk: writing them, and writing changes before the next response."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time
from typing import TYPE_CHECKING, Any

import torch

from syft.core.id_provider import ObjectId
from syft.core.object_storage import ObjectOutline
from syft.core.references import ObjectMeta, TensorMeta
from syft.exceptions import QuotaExceededError, StorageError, SyftError
from syft.federated.client.stored_dataset import StoredDataset
from syft.grid.storage.dirty_tracking import DirtyTracker, is_quiet, labels_of
from syft.grid.storage.interface import Facts, Item, Storage, checksum_of
from syft.grid.storage.lazy_objects import LazyObjects
from syft.grid.storage.quotas import QuotaLedger, memory_of
from syft.grid.storage.restore import outline_of
from syft.messaging.message import Operation
from syft.serde import serialize
from syft.workers.execution.copies import pointers_in
from syft.workers.execution.execute import kind_of

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker
    from syft.workers.execution.session import Session


# Ledger keys of values that are only on disk. Ids of Python objects are reused, so they can't be keys.
_keys = itertools.count(1 << 62)


def fresh_key() -> int:
    """Return a new key for memory in the ledger."""
    return -next(_keys)


class ObjectArchive:
    """The published objects of a worker: their descriptions, their bytes, and the changes that are not written yet."""

    def __init__(self, worker: BaseWorker, storage: Storage | None, ledger: QuotaLedger) -> None:
        self.worker = worker
        self.storage = storage
        self.ledger = ledger
        self._items: dict[ObjectId, Item] = {}
        self.objects = LazyObjects(self, self._items, ledger)
        self._tracker = DirtyTracker()
        self._lock = threading.RLock()
        # id -> the session that changed it (None: the worker's owner), and whether the change is certain
        self._dirty: dict[ObjectId, tuple[Session | None, bool]] = {}
        self._failed: dict[Session | None, SyftError] = {}
        self._flushing = threading.Lock()

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

    def _describe(self, obj_id: ObjectId, **fields: Any) -> Item:
        """Change fields of the description of a stored object, and write it if it differs."""
        with self._lock:
            before = self._items[obj_id]
            new = dataclasses.replace(before, **fields)
            if new != before and self.storage is not None:
                new = self.storage.amend(new)
            self._items[obj_id] = new
            return new

    def _amend(self, item: Item, obj: object) -> None:
        """Write labels again."""
        tags, description = labels_of(obj)
        self._describe(item.id, tags=tags, description=description)
        if type(obj) is not ObjectOutline:
            self._tracker.track(item.id, obj)

    def record_changes(self, session: Session, operation: Operation, failed: bool = False) -> None:
        """Record the objects that a call changed, for the next `flush`.

        Raises:
            QuotaExceededError: an object grew beyond the quota; its change is undone, or it is removed.
        """
        if is_quiet(operation):
            return
        for obj_id, sure in self._tracker.changed_by(operation, lambda key: dict.get(self.objects, key)):
            if obj_id in self._items:
                before = self._dirty.get(obj_id)
                self._dirty[obj_id] = (session, sure or (before is not None and before[1]))
            if sure and not failed and obj_id in self.ledger.entries:
                self._measure(obj_id)

    def _measure(self, obj_id: ObjectId) -> None:
        obj = dict.get(self.objects, obj_id)
        if obj is None or type(obj) is ObjectOutline:
            return
        self.ledger.recharge(obj_id, memory_of(obj))
        if self.ledger.is_over(obj_id):
            why = "it grew beyond the quota"
            if obj_id in self._items:
                self._undo(obj_id)
            else:
                self.worker.object_store.remove(obj_id)
                self.worker.object_store.note_departure(obj_id, why)
            raise QuotaExceededError(f"The object {obj_id!r} was not changed: {why}. Release or delete objects first.")

    def touch(self, obj_id: ObjectId, session: Session | None = None) -> None:
        """Record that an object was changed in place by something other than a client's call."""
        if obj_id in self._items:
            self._dirty[obj_id] = (session, True)

    def flush(self, session: Session | None = None) -> None:
        """Write the changed objects; called before every response, so it must be cheap if nothing changed.

        Only failures of changes by `session` are raised.

        Raises:
            StorageError: a change could not be written and was undone.
        """
        if self._dirty or self._flushing.locked():  # another thread may be writing a change of this session
            with self._flushing:
                while self._dirty:
                    obj_id, (by, sure) = self._dirty.popitem()
                    try:
                        self._rewrite(obj_id, sure)
                    except SyftError as error:
                        self._undo(obj_id)
                        self._failed[by] = error
        failure = self._failed.pop(session, None) if self._failed else None
        if failure is not None:
            raise type(failure)(f"A change of a published object was undone. {failure}")

    def _rewrite(self, obj_id: ObjectId, sure: bool) -> None:
        obj, item = dict.get(self.objects, obj_id), self._items.get(obj_id)
        if obj is None:
            return
        if item is None:
            self._write(obj_id, obj, Facts())  # a pointer that became a value
        elif type(obj) is ObjectOutline:
            self._amend(item, obj)
        elif sure or not self._tracker.same_values(obj_id, obj):
            self._write(obj_id, obj, item.facts, item.origin)
        elif not self._tracker.same_labels(obj_id, obj):
            self._amend(item, obj)

    def _undo(self, obj_id: ObjectId) -> None:
        """Revert an object to its version on disk."""
        with self._lock:
            item = self._items.get(obj_id)
            if item is not None and self.storage is not None:
                outline = outline_of(item)
                self._tracker.forget(obj_id)
                dict.__setitem__(self.objects, obj_id, outline)
                self.ledger.recharge(obj_id, {fresh_key(): item.memory})


def _named(facts: Facts) -> Facts:
    """Return facts without an anonymous owner: an anonymous client can't be recognised after a restart."""
    return facts if isinstance(facts.owner, str | int) else dataclasses.replace(facts, owner=None)


def _with_parts(obj: object, facts: Facts) -> Facts:
    """Add the specs of the tensors of a data set, which are then available without reading it."""
    if not isinstance(obj, StoredDataset):
        return facts
    specs = [("tensor", list(t.shape), str(t.dtype).removeprefix("torch."), False) for t in obj.contents()]
    return dataclasses.replace(facts, notes={**facts.notes, "parts": specs})
