"""ObjectManager: counts the objects of a worker, and stores the published ones on disk.

A published object is written before its publication is acknowledged. It is removed from disk before it is deleted,
or, when it is fetched, after it was delivered. Objects changed in place are written again before the next answer.
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
from syft.grid.storage.object_changes import ObjectChanges, fresh_key
from syft.grid.storage.quotas import NODE_QUOTA, USER_QUOTA, Quota, QuotaLedger, memory_of
from syft.grid.storage.restore import outline_of, payer_of, revive
from syft.grid.storage.result_size import expected_bytes, is_modest
from syft.messaging.message import Operation

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker
    from syft.workers.execution.session import Session

logger = logging.getLogger("syft.grid")
# The kind of objects that are stored and not published: sealed copies of results.
HIDDEN_KIND = "sealed"


class ObjectManager(ObjectChanges):
    """Stands behind the store of a worker; workers without one keep everything in memory, uncounted.

    Args:
        worker: the worker; what it holds already is its owner's, and is written.
        storage: where published objects are kept; None: they are only counted.
        quota: what one user may hold.
        node_quota: what all may hold together.
        users: other bounds for some users, by name.
        headroom: how much memory the process may take; None: that is not looked at.
        keeps_values: whether values stay in memory; otherwise each is read when it is asked for.
    """

    def __init__(
        self,
        worker: BaseWorker,
        storage: Storage | None = None,
        quota: Quota = USER_QUOTA,
        node_quota: Quota = NODE_QUOTA,
        users: Mapping[Any, Quota] | None = None,
        headroom: MemoryLimit | None = None,
        keeps_values: bool = True,
    ) -> None:
        super().__init__(worker, storage, QuotaLedger(quota, node_quota, users))
        self._keeps_values = keeps_values
        # Called with the id of each object that was deleted.
        self.at_removal: list[Callable[[ObjectId], None]] = []
        self._headroom = headroom
        self._departing: dict[ObjectId, Item] = {}
        self._returning: dict[ObjectId, Item] = {}
        store = worker.object_store
        before = store.objects
        store.objects, store.object_manager = self.objects, self
        self._restore()
        self.objects.update(before)

    # --- starting and ending --------------------------------------------------------------------------------

    def _restore(self) -> None:
        """Take up what is stored: only descriptions are read."""
        for item in () if self.storage is None else self.storage.items():
            if item.kind == HIDDEN_KIND:
                self._items[item.id] = item
                self.ledger.charge(item.id, item.facts.owner, {fresh_key(): item.memory}, checked=False)
                continue
            outline = outline_of(item)
            self._items[item.id] = item
            self.ledger.charge(item.id, item.facts.owner, {fresh_key(): item.memory}, checked=False)
            dict.__setitem__(self.objects, item.id, outline)
            self.worker.object_store.claims.publish(item.id, item.facts.owner)

    def close(self) -> None:
        """Write what is left to write, and leave the worker to itself; the storage stays open."""
        try:
            self.flush()
        finally:
            store = self.worker.object_store
            store.object_manager = None
            store.objects = {key: obj for key, obj in dict.items(self.objects) if type(obj) is not ObjectOutline}

    # --- what the dict of objects asks for ------------------------------------------------------------------

    def load(self, obj_id: ObjectId) -> Any:
        """Return an object, read from disk if it is not in memory yet.

        Raises:
            StorageError: it is damaged; it was set aside and is not here any more.
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
                    self._lose(obj_id, str(error))
                raise
            if self._keeps_values:
                dict.__setitem__(self.objects, obj_id, obj)
                self.ledger.recharge(obj_id, memory_of(obj))
                self._watch.see(obj_id, obj)
            return obj

    def _lose(self, obj_id: ObjectId, why: str) -> None:
        """Stop holding an object whose bytes are damaged."""
        self._forget(obj_id)
        dict.pop(self.objects, obj_id, None)
        self.worker.object_store.claims.forget(obj_id)
        self.worker.object_store.note_departure(obj_id, why)

    def place(self, obj_id: ObjectId, obj: object) -> None:
        """Put an object in the dict: one that was admitted, one in place of another, or one of the worker's owner."""
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
        """Keep an object for good, written before this returns.

        Args:
            obj_id: its id.
            obj: the object.
            facts: whose it is; None as the owner is the owner of the node.
            origin: what it was made of.
        """
        self.ledger.charge(obj_id, facts.owner, memory_of(obj))
        try:
            self._write(obj_id, obj, facts, origin)
        except Exception:
            self.ledger.release(obj_id)
            raise
        self._set(obj_id, obj)
        self.worker.object_store.claims.publish(obj_id, facts.owner)

    def _set(self, obj_id: ObjectId, obj: object) -> None:
        """Hold an object that was written, or only its description."""
        item = self._items.get(obj_id)
        if self._keeps_values or item is None:
            dict.__setitem__(self.objects, obj_id, obj)
            return
        outline = outline_of(item)
        self.ledger.recharge(obj_id, {fresh_key(): item.memory})
        self._watch.forget(obj_id)
        dict.__setitem__(self.objects, obj_id, outline)

    def replace(self, obj_id: ObjectId, obj: object, facts: Facts, origin: str = "") -> None:
        """Put an object in the place of another one that is stored; takes what `hold` takes."""
        self._write(obj_id, obj, facts, origin)
        self.ledger.recharge(obj_id, memory_of(obj))
        self._set(obj_id, obj)

    def drop(self, obj_id: ObjectId) -> None:
        """Take an object out, from disk first; one that is just leaving stays there until it has gone."""
        item = self._items.get(obj_id)
        if item is not None and self.storage is not None and self._departing.get(obj_id) is not item:
            try:
                self.storage.remove(obj_id, item.stamp)
            except StorageError as error:
                if self.worker.object_store.claims.was_published(obj_id):
                    raise
                # Its publisher had taken it back, and lets go of it now, which never fails; at worst it comes back.
                logger.warning("An object that was released could not be removed from the store: %s", error)
        with self._lock:
            self._forget(obj_id)
            dict.pop(self.objects, obj_id, None)
        for listener in self.at_removal:
            listener(obj_id)

    def _forget(self, obj_id: ObjectId) -> None:
        self._items.pop(obj_id, None)
        self._dirty.pop(obj_id, None)
        self._watch.forget(obj_id)
        self.ledger.release(obj_id)

    # --- what sessions and messages ask for -----------------------------------------------------------------

    def admit(self, session: Session, obj_id: ObjectId, obj: object, published: bool) -> None:
        """Let a client's object in: count it, and write it if it is published; raises, and nothing is kept.

        Raises:
            QuotaExceededError: the client holds too much, or all do.
            StorageFullError: there is no room on disk.
        """
        back = self._returning.pop(obj_id, None) if self._returning else None
        if back is not None:
            self.ledger.charge(obj_id, back.facts.owner, memory_of(obj), checked=False)
            self._items[obj_id] = back
            self._watch.see(obj_id, obj)
            return
        payer = payer_of(session)
        if self._headroom is not None and payer is not None:
            self._headroom.check()
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
        """Store the bytes of an object that another process made. Its value is not loaded here.

        An object that replaces one of the same owner keeps its readers. One that replaces another user's belongs to
        its own owner alone.

        Args:
            item: its description.
            value: its bytes.
            owner: the user whose it is.
            payer: the user whose quota it counts in; None: only the bounds of the node apply.
            hidden: whether it is kept out of searches and lists.

        Raises:
            QuotaExceededError: the user holds too much, or all do; nothing was stored.
        """
        with self._lock:
            before = self._items.get(item.id)
            outline = ObjectOutline(item.id, item.meta, set(item.tags), item.description)
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
                dict.__setitem__(self.objects, item.id, outline)
                self.worker.object_store.claims.publish(item.id, owner)
            return stored

    def relabel(self, item: Item) -> Item:
        """Write tags and description of a stored object again."""
        with self._lock:
            before = self._items[item.id]
            new = dataclasses.replace(before, tags=item.tags, description=item.description)
            outline = dict.get(self.objects, item.id)
            if type(outline) is ObjectOutline:
                outline.tags, outline.description = set(item.tags), item.description
            self._items[item.id] = stored = self._store().amend(new)
            return stored

    def share(self, obj_id: ObjectId, users: Iterable[Any], public: bool) -> Item:
        """Write the users who may read a stored object, in place of those before."""
        with self._lock:
            before = self._items[obj_id]
            new = dataclasses.replace(before, facts=before.facts.opened_to(users, public))
            self._items[obj_id] = stored = new if self.storage is None else self.storage.amend(new)
            return stored

    def discard(self, obj_id: ObjectId) -> None:
        """Remove a stored object that is kept out of searches and lists; silent if it is not there."""
        item = self._items.get(obj_id)
        if item is not None:
            self._store().remove(obj_id, item.stamp)
            self._forget(obj_id)

    def exchange(self, obj_id: ObjectId, obj: object) -> None:
        """Count another object in the place of one that a client holds; raises, and all is as it was.

        Raises:
            QuotaExceededError: the client holds too much then, or all do.
        """
        if obj_id in self.ledger.entries:
            self.ledger.exchange(obj_id, memory_of(obj))

    def make_durable(self, session: Session, obj_id: ObjectId) -> None:
        """Write an object that is about to be published."""
        if obj_id not in self._items:
            self._write(obj_id, self.objects[obj_id], Facts(session.client_id))

    def depart(self, obj_id: ObjectId) -> Item | None:
        """Note that an object is about to leave: it stays on disk until `gone`. Returns what `gone` needs."""
        item = self._items.get(obj_id)
        if item is not None:
            self._departing[obj_id] = item
        return item

    def gone(self, item: Item) -> None:
        """Remove an object from disk that has arrived where it went; a new one with the same id stays."""
        if self._departing.get(item.id) is item:
            del self._departing[item.id]
        try:
            if self.storage is not None:
                self.storage.remove(item.id, item.stamp)
        except StorageError as error:  # it was delivered; at worst it is here again after a restart
            logger.warning("An object that was fetched could not be removed from the store: %s", error)

    def come_back(self, item: Item) -> None:
        """Note that an object which could not leave is about to be kept again: it is on disk still."""
        if self._departing.get(item.id) is item:
            del self._departing[item.id]
            self._returning[item.id] = item

    def expect(self, session: Session, operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse a call whose result there is no room for, before it takes the memory.

        Raises:
            QuotaExceededError: the result would be too large.
        """
        if is_modest(operation.cmd_name, args):
            return
        room = self.ledger.room(payer_of(session))
        memory = room if self._headroom is None else min(room, self._headroom.room())
        if (size := expected_bytes(operation, args, kwargs, memory)) > room:
            raise QuotaExceededError(
                f"The result of {operation.cmd_name} would take {size:.0f} bytes, and there is room for {room:.0f}. "
                "It was not run: release or delete some objects first, or ask for less."
            )
        if size and self._headroom is not None:
            self._headroom.check(int(size))


def labels_bytes(item: Item) -> int:
    """Return the bytes that tags and description of an object take."""
    return sum(map(len, item.tags)) + len(item.description or "")
