"""ObjectManager: counts the objects of a worker, and stores the published ones on disk.

A published object is written before its publication is acknowledged. It is removed from disk before it is deleted,
or, when it is fetched, after its delivery. Objects changed in place are written again before the next response.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ObjectId
from syft.core.object_storage import ObjectOutline
from syft.exceptions import QuotaExceededError, StorageError
from syft.grid.storage.interface import Facts, Item, Storage
from syft.grid.storage.memory_limit import MemoryLimit
from syft.grid.storage.object_archive import ObjectArchive, fresh_key
from syft.grid.storage.quotas import NODE_QUOTA, USER_QUOTA, Quota, QuotaLedger, memory_of
from syft.grid.storage.restore import outline_of, payer_of, revive
from syft.grid.storage.result_size import expected_bytes, has_small_result
from syft.messaging.message import Operation

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker
    from syft.workers.execution.session import Session

logger = logging.getLogger("syft.grid")
# The kind of objects that are stored and not published: sealed copies of results.
HIDDEN_KIND = "sealed"


class ObjectManager(ObjectArchive):
    """Applies quotas to the objects of a worker and stores the published ones; workers without one do neither.

    Args:
        worker: the worker; objects it already holds belong to its owner and are written.
        storage: the store of published objects; None: they are only counted.
        quota: the quota of one user.
        node_quota: the quota of all users together.
        users: quotas of individual users, by name.
        memory_limit: the memory limit of the process; None: no limit.
        keeps_values: whether values stay in memory; otherwise each is read on access.
    """

    def __init__(
        self,
        worker: BaseWorker,
        storage: Storage | None = None,
        quota: Quota = USER_QUOTA,
        node_quota: Quota = NODE_QUOTA,
        users: Mapping[Any, Quota] | None = None,
        memory_limit: MemoryLimit | None = None,
        keeps_values: bool = True,
    ) -> None:
        super().__init__(worker, storage, QuotaLedger(quota, node_quota, users))
        self._keeps_values = keeps_values
        # Called with the id of each deleted object.
        self.removal_listeners: list[Callable[[ObjectId], None]] = []
        self._memory_limit = memory_limit
        self._fetching: dict[ObjectId, Item] = {}
        self._cancelled: dict[ObjectId, Item] = {}
        store = worker.object_store
        before = store.objects
        store.objects, store.object_manager = self.objects, self
        self._restore()
        self.objects.update(before)

    # --- startup and shutdown --------------------------------------------------------------------------------

    def _restore(self) -> None:
        """List the stored objects; only descriptions are read."""
        for item in () if self.storage is None else self.storage.items():
            self._items[item.id] = item
            self.ledger.charge(item.id, item.facts.owner, {fresh_key(): item.memory}, checked=False)
            if item.kind != HIDDEN_KIND:
                dict.__setitem__(self.objects, item.id, outline_of(item))
                self.worker.object_store.claims.publish(item.id, item.facts.owner)

    def close(self) -> None:
        """Write pending changes and detach from the worker; the storage stays open."""
        try:
            self.flush()
        finally:
            store = self.worker.object_store
            store.object_manager = None
            store.objects = {key: obj for key, obj in dict.items(self.objects) if type(obj) is not ObjectOutline}

    # --- called by LazyObjects ------------------------------------------------------------------------------

    def load(self, obj_id: ObjectId) -> Any:
        """Return an object, read from disk if it is not in memory yet.

        Raises:
            StorageError: it is damaged; it was quarantined and is no longer available.
        """
        with self._lock:
            found = dict.__getitem__(self.objects, obj_id)
            if type(found) is not ObjectOutline:
                return found
            item = self._items[obj_id]
            try:
                obj = revive(self.worker, item, self._store().read(item))
            except StorageError as error:
                if any(damaged.stamp == item.stamp for damaged in self._store().damaged()):
                    self._drop_damaged(obj_id, str(error))
                raise
            if self._keeps_values:
                dict.__setitem__(self.objects, obj_id, obj)
                self.ledger.recharge(obj_id, memory_of(obj))
                self._tracker.track(obj_id, obj)
            return obj

    def _drop_damaged(self, obj_id: ObjectId, why: str) -> None:
        """Stop holding an object whose bytes are damaged."""
        self._forget(obj_id)
        dict.pop(self.objects, obj_id, None)
        self.worker.object_store.claims.forget(obj_id)
        self.worker.object_store.note_departure(obj_id, why)

    def insert(self, obj_id: ObjectId, obj: object) -> None:
        """Insert an object: an admitted one, a replacement, or one of the worker's owner."""
        if obj_id not in self.ledger.entries:
            self.hold(obj_id, obj, Facts())
        elif obj_id in self.objects:
            self.ledger.recharge(obj_id, memory_of(obj))
            dict.__setitem__(self.objects, obj_id, obj)
            if self.worker.object_store.claims.is_published(obj_id):
                self._dirty[obj_id] = (None, True)
        else:
            dict.__setitem__(self.objects, obj_id, obj)

    def hold(self, obj_id: ObjectId, obj: object, facts: Facts, origin: str = "") -> None:
        """Store an object durably; it is on disk when this returns."""
        self.ledger.charge(obj_id, facts.owner, memory_of(obj))
        try:
            self._write(obj_id, obj, facts, origin)
        except Exception:
            self.ledger.release(obj_id)
            raise
        self._set(obj_id, obj)
        self.worker.object_store.claims.publish(obj_id, facts.owner)

    def _set(self, obj_id: ObjectId, obj: object) -> None:
        """Insert an object that was written, or only its description."""
        item = self._items.get(obj_id)
        if self._keeps_values or item is None:
            dict.__setitem__(self.objects, obj_id, obj)
            return
        self.ledger.recharge(obj_id, {fresh_key(): item.memory})
        self._tracker.forget(obj_id)
        dict.__setitem__(self.objects, obj_id, outline_of(item))

    def replace(self, obj_id: ObjectId, obj: object, facts: Facts, origin: str = "") -> None:
        """Replace a stored object; the arguments are those of `hold`."""
        self._write(obj_id, obj, facts, origin)
        self.ledger.recharge(obj_id, memory_of(obj))
        self._set(obj_id, obj)

    def drop(self, obj_id: ObjectId) -> None:
        """Remove an object, first from disk; one being fetched stays on disk until it is delivered."""
        item = self._items.get(obj_id)
        if item is not None and self.storage is not None and self._fetching.get(obj_id) is not item:
            try:
                self.storage.remove(obj_id, item.stamp)
            except StorageError as error:
                if self.worker.object_store.claims.was_published(obj_id):
                    raise
                # A release must never fail; at worst the unpublished object reappears after a restart.
                logger.warning("A released object could not be removed from the store: %s", error)
        with self._lock:
            self._forget(obj_id)
            dict.pop(self.objects, obj_id, None)
        for listener in self.removal_listeners:
            listener(obj_id)

    def _forget(self, obj_id: ObjectId) -> None:
        self._items.pop(obj_id, None)
        self._dirty.pop(obj_id, None)
        self._tracker.forget(obj_id)
        self.ledger.release(obj_id)

    # --- called by sessions and message handlers ------------------------------------------------------------

    def admit(self, session: Session, obj_id: ObjectId, obj: object, published: bool) -> None:
        """Count a client's object, and write it if it is published; on an error nothing is stored.

        Raises:
            QuotaExceededError: the quota of the client or of the node is exceeded.
            StorageFullError: the disk is full.
        """
        back = self._cancelled.pop(obj_id, None) if self._cancelled else None
        if back is not None:
            self.ledger.charge(obj_id, back.facts.owner, memory_of(obj), checked=False)
            self._items[obj_id] = back
            self._tracker.track(obj_id, obj)
            return
        payer = payer_of(session)
        if self._memory_limit is not None and payer is not None:
            self._memory_limit.check()
        self.ledger.charge(obj_id, payer, memory_of(obj))
        if published:
            try:
                self._write(obj_id, obj, Facts(session.client_id))
            except Exception:
                self.ledger.release(obj_id)
                raise

    def adopt(
        self, item: Item, value: bytes | bytearray | memoryview, owner: object, payer: object, hidden: bool = False
    ) -> Item:
        """Store the bytes of an object that another process created. Its value is not loaded here.

        An object that replaces one of the same owner keeps its readers. One that replaces another user's belongs to
        its own owner alone.

        Args:
            item: its description.
            value: its bytes.
            owner: the user who owns it.
            payer: the user whose quota it counts against; None: only the quota of the node applies.
            hidden: whether it is kept out of searches and lists.

        Raises:
            QuotaExceededError: the quota of the user or of the node is exceeded; nothing was stored.
        """
        with self._lock:
            before = self._items.get(item.id)
            memory = {fresh_key(): max(item.memory, len(value)) + labels_bytes(item)}
            if before is None:
                self.ledger.charge(item.id, payer, memory)
                undo: Callable[[], Any] = functools.partial(self.ledger.release, item.id)
                facts = Facts(owner, notes=item.facts.notes)
            elif before.facts.owner != owner:
                undo = self.ledger.exchange(item.id, memory, payer)
                facts = Facts(owner, notes=item.facts.notes)
            else:
                undo = self.ledger.exchange(item.id, memory)
                facts = dataclasses.replace(before.facts, notes={**before.facts.notes, **item.facts.notes})
                item = dataclasses.replace(item, created=before.created)
            item = dataclasses.replace(item, facts=facts, memory=sum(memory.values()))
            try:
                stored = self._store().put(item, value)
            except Exception:
                undo()
                raise
            self._items[item.id] = stored
            if not hidden:
                dict.__setitem__(self.objects, item.id, outline_of(stored))
                self.worker.object_store.claims.publish(item.id, owner)
            return stored

    def relabel(self, item: Item) -> Item:
        """Write tags and description of a stored object again."""
        with self._lock:
            outline = dict.get(self.objects, item.id)
            if type(outline) is ObjectOutline:
                outline.tags, outline.description = set(item.tags), item.description
            return self._describe(item.id, tags=item.tags, description=item.description)

    def share(self, obj_id: ObjectId, users: Iterable[Any], public: bool) -> Item:
        """Replace the users who may read a stored object."""
        with self._lock:
            return self._describe(obj_id, facts=self._items[obj_id].facts.opened_to(users, public))

    def discard(self, obj_id: ObjectId) -> None:
        """Remove a stored object that is hidden from searches and lists; does nothing if it does not exist."""
        item = self._items.get(obj_id)
        if item is not None:
            self._store().remove(obj_id, item.stamp)
            self._forget(obj_id)

    def exchange(self, obj_id: ObjectId, obj: object) -> None:
        """Count another object instead of one that a client holds; on an error nothing changes.

        Raises:
            QuotaExceededError: the quota of the client or of the node would be exceeded.
        """
        if obj_id in self.ledger.entries:
            self.ledger.exchange(obj_id, memory_of(obj))

    def make_durable(self, session: Session, obj_id: ObjectId) -> None:
        """Write an object that is about to be published."""
        if obj_id not in self._items:
            self._write(obj_id, self.objects[obj_id], Facts(session.client_id))

    def begin_fetch(self, obj_id: ObjectId) -> Item | None:
        """Mark an object as being fetched: it stays on disk until `finish_fetch`, which takes the returned item."""
        item = self._items.get(obj_id)
        if item is not None:
            self._fetching[obj_id] = item
        return item

    def finish_fetch(self, item: Item) -> None:
        """Remove a delivered object from disk; a new one with the same id stays."""
        if self._fetching.get(item.id) is item:
            del self._fetching[item.id]
        try:
            if self.storage is not None:
                self.storage.remove(item.id, item.stamp)
        except StorageError as error:  # at worst it reappears after a restart
            logger.warning("A fetched object could not be removed from the store: %s", error)

    def cancel_fetch(self, item: Item) -> None:
        """Cancel the delivery of an object; it is still on disk, and is inserted again next."""
        if self._fetching.get(item.id) is item:
            del self._fetching[item.id]
            self._cancelled[item.id] = item

    def check_result_size(
        self, session: Session, operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Refuse a call whose result would exceed a quota, before it allocates the memory.

        Raises:
            QuotaExceededError: the result would be too large.
        """
        if has_small_result(operation.cmd_name, args):
            return
        room = self.ledger.room(payer_of(session))
        memory = room if self._memory_limit is None else min(room, self._memory_limit.room())
        if (size := expected_bytes(operation, args, kwargs, memory)) > room:
            raise QuotaExceededError(
                f"The result of {operation.cmd_name} would take {size:.0f} bytes; {room:.0f} are free. "
                "The call was not run. Release or delete objects first, or request a smaller result."
            )
        if size and self._memory_limit is not None:
            self._memory_limit.check(int(size))


def labels_bytes(item: Item) -> int:
    """Return the bytes of the tags and the description of an object."""
    return sum(map(len, item.tags)) + len(item.description or "")
