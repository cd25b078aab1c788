"""Which objects of a worker a session may name at all.

Where a policy holds: those of its own user, whichever of the user's sessions made them, and what is published. The id
of any other object gives exactly the error of an id that is not there.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from syft.core.id_provider import ObjectId
from syft.exceptions import ObjectNotFoundError
from syft.workers.policy import ALLOW_ALL
from syft.workers.provenance import known_rights, ledger_of


class Departure(str):
    """Why an id is not there any more; where a policy holds only the user it is about is told."""

    __slots__ = ("user",)

    user: object

    def __new__(cls, text: str, user: object) -> Departure:
        """Make the text."""
        made = super().__new__(cls, text)
        made.user = user
        return made


def sees(worker: Any, session: Any, obj_id: ObjectId) -> bool:
    """Say whether a session may name an object that is held here."""
    if worker.policy is ALLOW_ALL or session.role == "owner":
        return True
    claims = worker.object_store.claims
    if claims.is_published(obj_id) or claims.belongs_to(obj_id, session):
        return True
    rights = known_rights(worker.object_store.objects.get(obj_id))
    return rights is not None and rights.owner == session.client_id is not None


def find(worker: Any, session: Any, obj_id: ObjectId) -> Any:
    """Return an object that a session may name.

    Args:
        worker: the worker that holds it.
        session: who asks.
        obj_id: its id.

    Raises:
        ObjectNotFoundError: it is not there, or it is nothing to the asker, which is the same to the asker.
    """
    store = worker.object_store
    if worker.policy is ALLOW_ALL:
        return store.get(obj_id)
    if obj_id in store.objects and sees(worker, session, obj_id):
        return store.get(obj_id)
    cause = store._departed.get(obj_id, "")
    told = isinstance(cause, Departure) and cause.user == session.client_id is not None
    raise ObjectNotFoundError(obj_id, store.worker_id, str(cause) if told else "")


def turn_of(worker: Any, session: Any) -> AbstractContextManager[Any]:
    """Keep the calls of one user apart in time where a policy holds: what was checked is what is used."""
    return nullcontext() if worker.policy is ALLOW_ALL else ledger_of(worker).turn(session)
