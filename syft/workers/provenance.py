"""Provenance: whose an object is, and which restricted data sets it derives from.

Kept in the `__dict__` of the object, so that it goes with the object and can't be mistaken for that of another one
which gets the same id later. An object without it counts as the worker owner's own, private: forgetting to say
something opens nothing.
"""

from __future__ import annotations

import dataclasses
import secrets
import threading
import weakref
from collections.abc import Iterable
from typing import Any

from syft.core.id_provider import ObjectId
from syft.core.labels import id_of

RIGHTS = "_syft_rights"


class Source:
    """One restricted data set: who owns it, and to whom everything derived from it may be released.

    Results point at it, so what its owner decides later holds for all of them at once.

    Args:
        id: the id of the object that it began with; None stands for all that one user sent.
        owner: the user whose it is; None: the owner of the worker.
        allowed_users: users to whom it may be released.
        public: whether it may be released to everybody.
        key: tells it from another one that begins with an object of the same id, later.
    """

    __slots__ = ("__weakref__", "allowed_users", "id", "key", "owner", "public")

    def __init__(
        self,
        id: ObjectId | None,
        owner: object,
        allowed_users: Iterable[Any] = (),
        public: bool = False,
        key: str | None = None,
    ) -> None:
        self.id = id
        self.key = key if key is not None else "" if id is None else secrets.token_hex(8)
        self.owner = owner
        self.allowed_users = frozenset(allowed_users)
        self.public = public

    def __deepcopy__(self, memo: dict[int, Any]) -> Source:
        return self

    def __repr__(self) -> str:
        return f"<Source {self.id!r} of {self.owner!r}>"


class Failure(Source):
    """What stands for a call on restricted data that failed, in whatever was to come of it.

    Whether it fails may depend on values, so that is only told to whoever may have the values.

    Args:
        text: what went wrong.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        super().__init__(None, None)
        self.text = text


@dataclasses.dataclass(frozen=True, slots=True)
class Rights:
    """What a worker knows of one object: whose it is, and what it derives from.

    Attributes:
        owner: the user; None: the owner of the worker.
        sources: the restricted data sets it derives from.
        mark: a word that stands for this very object as it is: made when somebody asks to have it (`mark_of`), and gone
            as soon as anything is written to it, whatever the values were and are. "" for none.
    """

    owner: object
    sources: frozenset[Source]
    mark: str = dataclasses.field(default="", compare=False)


NO_SOURCES: frozenset[Source] = frozenset()


class Turn:
    """One call of a user at a time, or a value could change between the look at its sources and its use."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.RLock()


class Ledger:
    """What a worker keeps beside its objects to follow where values go.

    One for each worker; made when it is first needed, so workers without a policy have none.
    """

    def __init__(self) -> None:
        # By user: what stands for all that the user sent.
        self._users: weakref.WeakValueDictionary[object, Source] = weakref.WeakValueDictionary()
        # By key and by id, as long as something derives from it: one source has one object, also after a restart.
        self._by_key: weakref.WeakValueDictionary[str, Source] = weakref.WeakValueDictionary()
        self._known: weakref.WeakValueDictionary[ObjectId, Source] = weakref.WeakValueDictionary()
        # By user, kept alive by the user's sessions.
        self._turns: weakref.WeakValueDictionary[object, Turn] = weakref.WeakValueDictionary()
        # By user: sources of what was written into existing tensors. Autograd may have kept those for a backward pass.
        self._late: dict[object, frozenset[Source]] = {}
        # The ids of objects that have a mark.
        self.marked: set[ObjectId] = set()
        self._lock = threading.Lock()

    def of_user(self, user: object) -> Source:
        """Return what stands for all that a user sent."""
        with self._lock:
            found = self._users.get(user)
            if found is None:
                found = self._users[user] = Source(None, user)
        return found

    def source(self, obj_id: ObjectId, owner: object) -> Source:
        """Return a new source that begins with an object."""
        return self._note(Source(obj_id, owner))

    def _note(self, source: Source) -> Source:
        if source.id is not None:
            with self._lock:
                self._known[source.id] = self._by_key[source.key] = source
        return source

    def known(self, obj_id: ObjectId) -> Source | None:
        """Return the last source that began with an object of this id, if something still derives from it."""
        return self._known.get(obj_id)

    def restore(self, row: dict[str, Any]) -> Source:
        """Return the source of a row that was written by `row_of`: the one that is known already, or a new one."""
        obj_id, owner = row["id"], row["owner"]
        if "failed" in row:
            return Failure(row["failed"])
        if obj_id is None:
            return self.of_user(owner)
        found = self._by_key.get(row["key"])
        if found is None or (found.id, found.owner) != (obj_id, owner):
            found = self._note(Source(obj_id, owner, row["allowed_users"], bool(row["public"]), row["key"]))
        return found

    def turn(self, session: Any) -> threading.RLock:
        """Return the lock under which the calls of one user run, whichever sessions they come by."""
        own: Turn | None = session.turn
        if own is None:
            with self._lock:
                user = session.client_id
                own = self._turns.get(user) if user is not None else None
                if own is None:
                    own = Turn()
                    if user is not None:
                        self._turns[user] = own
                session.turn = own
        return own.lock

    def late(self, user: object) -> frozenset[Source]:
        """Return the sources of what a user wrote into existing tensors."""
        return self._late.get(user, NO_SOURCES)

    def note_late(self, user: object, sources: frozenset[Source]) -> None:
        """Remember that something with these sources was written into an existing tensor."""
        with self._lock:
            self._late[user] = self._late.get(user, NO_SOURCES) | sources


_ledgers: weakref.WeakKeyDictionary[Any, Ledger] = weakref.WeakKeyDictionary()
_making = threading.Lock()


def ledger_of(worker: Any) -> Ledger:
    """Return the ledger of a worker."""
    found = _ledgers.get(worker)
    if found is None:
        with _making:
            found = _ledgers.setdefault(worker, Ledger())
    return found


def user_of(session: Any) -> object:
    """Return who a session is of: its client, or nobody else than itself where that is not known."""
    return session.client_id if session.client_id is not None else session


def known_rights(obj: Any) -> Rights | None:
    """Return the rights of an object, if it has any."""
    own = getattr(obj, "__dict__", None)
    return None if own is None else own.get(RIGHTS)


def set_rights(obj: Any, rights: Rights) -> None:
    """Give an object its rights."""
    obj.__dict__[RIGHTS] = rights


def rights_of(worker: Any, obj_id: ObjectId | None, obj: Any) -> Rights:
    """Return the rights of an object; what nobody said anything about is the worker owner's, private.

    Args:
        worker: the worker that holds it.
        obj_id: its id there, if it has one.
        obj: the object.
    """
    found = known_rights(obj)
    if found is None:
        # A source of its own: what was said of an earlier object of this id was not said of this one.
        source = ledger_of(worker).source(obj_id if obj_id is not None else id_of(obj), None)
        found = Rights(None, frozenset({source}))
        set_rights(obj, found)
    return found


def mark_of(worker: Any, obj_id: ObjectId, obj: Any) -> str:
    """Return the mark of an object, which gets one if it has none.

    Args:
        worker: the worker that holds it.
        obj_id: its id there.
        obj: the object.
    """
    rights = rights_of(worker, obj_id, obj)
    if not rights.mark:
        rights = dataclasses.replace(rights, mark=secrets.token_hex(8))
        set_rights(obj, rights)
        touch_rights(worker, obj_id)
    ledger_of(worker).marked.add(obj_id)
    return rights.mark


def unmark(worker: Any, obj_id: ObjectId, obj: Any) -> None:
    """Take the mark of an object away: something may have been written to it."""
    rights = known_rights(obj)
    ledger_of(worker).marked.discard(obj_id)
    if rights is not None and rights.mark:
        set_rights(obj, dataclasses.replace(rights, mark=""))
        touch_rights(worker, obj_id)


def touch_rights(worker: Any, obj_id: ObjectId) -> None:
    """Have rights that changed written down with their object, if it is one that is."""
    keeper = getattr(worker.object_store, "keeper", None)
    if keeper is not None:
        keeper.touch(obj_id)


def source_of(worker: Any, obj_id: ObjectId | None, obj: Any) -> Source | None:
    """Return the data set that an object is: as it was published, its rows are its people. None for what derives.

    Args:
        worker: the worker that holds it.
        obj_id: its id there.
        obj: the object.
    """
    sources = rights_of(worker, obj_id, obj).sources
    found = next(iter(sources)) if len(sources) == 1 else None
    return found if found is not None and found.id is not None and found.id == obj_id else None


def first_rights(worker: Any, session: Any, obj_id: ObjectId, published: bool, allowed_users: Any = ()) -> Rights:
    """Return the rights of an object that came from a client, and derives from nothing that is held here.

    What is published, or comes from the worker's owner, is a source of its own: it can be granted by itself.
    """
    ledger, user = ledger_of(worker), user_of(session)
    if not (published or allowed_users or session.role == "owner"):
        return Rights(user, frozenset({ledger.of_user(user)}))
    source = ledger.source(obj_id, user)
    source.allowed_users = frozenset(allowed_users)
    return Rights(user, frozenset({source}))


def note_published(worker: Any, obj_id: ObjectId, obj: Any) -> None:
    """Make an object that is about to be published a source of its own, if it is nothing but what its owner sent."""
    rights = rights_of(worker, obj_id, obj)
    ledger = ledger_of(worker)
    if rights.sources == {ledger.of_user(rights.owner)}:
        set_rights(obj, Rights(rights.owner, frozenset({ledger.source(obj_id, rights.owner)})))


def row_of(rights: Rights) -> dict[str, Any]:
    """Return rights as something that can be written to a disk as JSON."""
    sources = [
        {
            "id": source.id,
            "owner": _named(source.owner),
            "allowed_users": sorted(source.allowed_users, key=str),
            "public": source.public,
            "key": source.key,
            **({"failed": source.text} if isinstance(source, Failure) else {}),
        }
        for source in sorted(rights.sources, key=lambda source: (str(source.id), str(source.owner)))
    ]
    return {"owner": _named(rights.owner), "sources": sources, "mark": rights.mark}


def _named(owner: object) -> object:
    """Return a user as it is written; a session without a name has nobody to come back as."""
    return owner if isinstance(owner, str | int) else None


def rights_from_row(worker: Any, row: dict[str, Any]) -> Rights:
    """Return the rights that a row tells of."""
    ledger = ledger_of(worker)
    sources = frozenset(ledger.restore(source) for source in row["sources"])
    return Rights(row["owner"], sources, str(row.get("mark", "")))
