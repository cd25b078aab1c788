"""Claims: the sessions that keep an object alive, so that a release by one does not delete an object of another.

An object is held by the session that made it and by sessions that accepted an offered claim, or it is published and
independent of pointers. It is deleted with its last claim. A release by a session that has no claim, and with no
offer pending, changes nothing.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ObjectId

if TYPE_CHECKING:
    from syft.workers.execution.session import Session


class Claims:
    """The claims on the objects of one store.

    The common case, one claim by one session, is a single dictionary entry, so that a call costs no lock.
    """

    def __init__(self) -> None:
        # id -> the one session that claims it, or a Counter of sessions where there are several claims
        self._holders: dict[ObjectId, Any] = {}
        # id -> (session, whether the object was its own) of each offered claim
        self._offers: dict[ObjectId, list[tuple[Any, bool]]] = {}
        self._published: dict[ObjectId, object] = {}
        # id -> sessions that claimed an object that was not offered: as many of their releases are ignored
        self._unfounded: dict[ObjectId, Counter[Any]] = {}
        self._lock = threading.RLock()

    def hold(self, obj_id: ObjectId, session: Session) -> None:
        """Record the first claim on a new object."""
        self._holders[obj_id] = session

    def publish(self, obj_id: ObjectId, client_id: object) -> None:
        """Keep an object until it is deleted; its publisher's claim ends."""
        with self._lock:
            self._published[obj_id] = client_id
            self._holders.pop(obj_id, None)

    def offer(self, obj_id: ObjectId, session: Session) -> None:
        """Offer a claim to another session, before a pointer is passed on; it lasts as long as this session.

        An offer for an object of another session keeps the object alive, and gives no rights over it.
        """
        with self._lock:
            self._offers.setdefault(obj_id, []).append((session, self.belongs_to(obj_id, session)))

    def withdraw(self, session: Session) -> list[ObjectId]:
        """Withdraw the pending offers of a session; returns the ids left without any claim."""
        left = []
        with self._lock:
            for sessions in self._unfounded.values():
                sessions.pop(session, None)
            for obj_id in [key for key, offers in self._offers.items() if any(by is session for by, _ in offers)]:
                others = [offer for offer in self._offers.pop(obj_id) if offer[0] is not session]
                if others:
                    self._offers[obj_id] = others
                elif obj_id not in self._holders and obj_id not in self._published:
                    left.append(obj_id)
        return left

    def claim(self, obj_id: ObjectId, session: Session) -> None:
        """Accept an offered claim, or reclaim an object that the session's client published; otherwise do nothing."""
        with self._lock:
            if obj_id in self._published and self._published[obj_id] == session.client_id is not None:
                del self._published[obj_id]
                self._holders[obj_id] = session
            elif any(own for _, own in self._offers.get(obj_id, ())):
                self._take_offer(obj_id)
                held = self._holders.get(obj_id)
                if not isinstance(held, Counter):
                    held = self._holders[obj_id] = Counter({held: 1} if held is not None else {})
                held[session] += 1
            elif obj_id not in self._offers:
                self._unfounded.setdefault(obj_id, Counter())[session] += 1

    def release(self, obj_id: ObjectId, session: Session) -> bool:
        """Drop one claim of a session; True if that was the last claim on the object. Never raises."""
        held = self._holders.get(obj_id)
        if held is session and obj_id not in self._offers and obj_id not in self._unfounded:
            return self._holders.pop(obj_id, None) is not None
        with self._lock:
            unfounded = self._unfounded.get(obj_id)
            if unfounded is not None and unfounded[session] > 0:
                unfounded[session] -= 1
                if not +unfounded:
                    del self._unfounded[obj_id]
                return False
            if held is session:
                self._holders.pop(obj_id, None)
            elif isinstance(held, Counter) and held[session] > 0:
                held[session] -= 1
                if not +held:
                    self._holders.pop(obj_id, None)
            elif not self._take_offer(obj_id):
                return False
            return not (obj_id in self._holders or obj_id in self._offers or obj_id in self._published)

    def _take_offer(self, obj_id: ObjectId) -> bool:
        offers = self._offers.get(obj_id)
        if not offers:
            return False
        offers.remove(next((offer for offer in offers if offer[1]), offers[-1]))
        if not offers:
            del self._offers[obj_id]
        return True

    def belongs_to(self, obj_id: ObjectId, session: Session) -> bool:
        """Return whether the client of a session holds an object in any session, or published it."""
        held = self._holders.get(obj_id)
        if held is session:
            return True
        if held is not None and session.client_id is not None:
            holders = (+held).keys() if isinstance(held, Counter) else (held,)
            if any(holder is session or holder.client_id == session.client_id for holder in holders):
                return True
        elif isinstance(held, Counter) and held[session] > 0:
            return True
        return obj_id in self._published and self._published[obj_id] == session.client_id is not None

    def is_published(self, obj_id: ObjectId) -> bool:
        """Return whether an object outlives its pointers."""
        return obj_id in self._published or (obj_id not in self._holders and obj_id not in self._offers)

    def was_published(self, obj_id: ObjectId) -> bool:
        """Return whether an object was published and not reclaimed."""
        return obj_id in self._published

    def publisher_of(self, obj_id: ObjectId) -> object:
        """Return the client that published an object; None if it is not published, or by the worker's owner."""
        return self._published.get(obj_id)

    def held_by(self, session: Session) -> list[ObjectId]:
        """Return the ids that a session holds, once for each claim."""
        found = []
        for obj_id, held in self._holders.copy().items():
            count = held[session] if isinstance(held, Counter) else int(held is session)
            found += [obj_id] * count
        return found

    def forget(self, obj_id: ObjectId) -> None:
        """Drop every claim on a deleted object."""
        self._holders.pop(obj_id, None)
        if self._offers or self._published or self._unfounded:
            with self._lock:
                self._offers.pop(obj_id, None)
                self._published.pop(obj_id, None)
                self._unfounded.pop(obj_id, None)

    def clear(self) -> None:
        """Drop every claim."""
        self._holders.clear()
        self._offers.clear()
        self._published.clear()
        self._unfounded.clear()
