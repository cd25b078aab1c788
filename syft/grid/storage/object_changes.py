"""Changes of stored objects: which calls changed them, and writing them again before the next answer."""

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

# Keys of memory in the ledger for values that are on disk only. Ids of Python objects would be used again.
_keys = itertools.count(1 << 62)


def fresh_key() -> int:
    """Return a key for memory in the ledger that no object has."""
    return -next(_keys)


class ObjectChanges(ObjectArchive):
    """The archive of a worker's objects, with the changes that are not written yet.

    Args:
        worker: the worker.
        storage: where published objects are stored; None: they are only counted.
        ledger: counts them.
    """

    def __init__(self, worker: BaseWorker, storage: Storage | None, ledger: QuotaLedger) -> None:
        super().__init__(worker, storage, ledger)
        # id -> the session that changed it (None: the worker's owner), and whether the change is certain
        self._dirty: dict[ObjectId, tuple[Session | None, bool]] = {}
        self._failed: dict[Session | None, SyftError] = {}
        self._flushing = threading.Lock()

    def note(self, session: Session, operation: Operation, failed: bool = False) -> None:
        """Take note of what a call changed, for the next `flush`.

        Args:
            session: who called.
            operation: the call.
            failed: whether it failed; it may have changed something before that.

        Raises:
            QuotaExceededError: an object grew beyond what is allowed; it is not kept.
        """
        if is_quiet(operation):
            return
        for obj_id, sure in self._watch.changed_by(operation, lambda key: dict.get(self.objects, key)):
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
            why = "it grew beyond what may be held at this node"
            if obj_id in self._items:
                self._undo(obj_id)
            else:
                self.worker.object_store.remove(obj_id)
                self.worker.object_store.note_departure(obj_id, why)
            raise QuotaExceededError(f"The object {obj_id!r} was not changed: {why}. Release or delete some first.")

    def touch(self, obj_id: ObjectId, session: Session | None = None) -> None:
        """Take note that an object was changed in place, by whatever is not a call of a client."""
        if obj_id in self._items:
            self._dirty[obj_id] = (session, True)

    def flush(self, session: Session | None = None) -> None:
        """Write what was changed; called before every answer, so it costs next to nothing when nothing was.

        Args:
            session: who waits for an answer; it hears of failures of its own changes alone.

        Raises:
            StorageError: a change could not be written, and was undone.
        """
        if self._dirty or self._flushing.locked():  # another one may be writing what this session changed
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
        elif sure or not self._watch.same_values(obj_id, obj):
            self._write(obj_id, obj, item.facts, item.origin)
        elif not self._watch.same_labels(obj_id, obj):
            self._amend(item, obj)

    def _undo(self, obj_id: ObjectId) -> None:
        """Forget a change that could not be written: the object is again what is on disk."""
        with self._lock:
            item = self._items.get(obj_id)
            if item is not None and self.storage is not None:
                outline = outline_of(item)
                self._watch.forget(obj_id)
                dict.__setitem__(self.objects, obj_id, outline)
                self.ledger.recharge(obj_id, {fresh_key(): item.memory})
