"""Changes of stored objects: which calls made them, and writing them before the next response."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

from syft.core.id_provider import ObjectId
from syft.core.object_storage import ObjectOutline
from syft.exceptions import QuotaExceededError, SyftError
from syft.grid.storage.dirty_tracking import is_quiet
from syft.grid.storage.interface import Facts, Storage
from syft.grid.storage.object_archive import ObjectArchive
from syft.grid.storage.quotas import QuotaLedger, memory_of
from syft.grid.storage.restore import outline_of
from syft.messaging.message import Operation

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker
    from syft.workers.execution.session import Session

# Ledger keys of values that are only on disk. Ids of Python objects are reused, so they can't be keys.
_keys = itertools.count(1 << 62)


def fresh_key() -> int:
    """Return a new key for memory in the ledger."""
    return -next(_keys)


class ObjectChanges(ObjectArchive):
    """The archive of a worker's objects, with the changes that are not written yet.

    Args:
        worker: the worker.
        storage: the store of published objects; None: they are only counted.
        ledger: the quota ledger that counts them.
    """

    def __init__(self, worker: BaseWorker, storage: Storage | None, ledger: QuotaLedger) -> None:
        super().__init__(worker, storage, ledger)
        # id -> the session that changed it (None: the worker's owner), and whether the change is certain
        self._dirty: dict[ObjectId, tuple[Session | None, bool]] = {}
        self._failed: dict[Session | None, SyftError] = {}
        self._flushing = threading.Lock()

    def record_changes(self, session: Session, operation: Operation, failed: bool = False) -> None:
        """Record the objects that a call changed, for the next `flush`.

        Args:
            session: the session of the caller.
            operation: the call.
            failed: whether it failed; it may have changed objects before.

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

        Args:
            session: the session that waits for the response; only failures of its own changes are raised.

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
