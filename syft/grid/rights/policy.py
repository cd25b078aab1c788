"""NodePolicy: the access rules of a node. Data is private unless its owner shares it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ObjectId
from syft.exceptions import NotPermittedError, ObjectNotFoundError
from syft.grid.identity.names import canonical
from syft.grid.rights.audit import AuditLog
from syft.grid.rights.budget import Budget, published
from syft.grid.rights.requests import Requests
from syft.grid.rights.row_store import RowStore
from syft.grid.storage.interface import Facts, Item
from syft.grid.storage.records import RecordStore
from syft.tensors.private import users_of
from syft.workers.access.policy import Release

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

OWNER = "owner"


class NodePolicy:
    """The access rules of a node: readers of data sets, requests, and privacy budgets.

    A user may read a data set that is the user's own, public, or shared with the user. With any other published data
    set a user may compute; results stay in the vault until they are released.

    Args:
        records: the records of the node's store: requests, the privacy ledger and the audit log.
        owner: the owner's name, for messages.
        clock: returns seconds since 1970.
    """

    # Seconds that each step of a private training is planned to take; None: measured with made-up samples.
    step_seconds: float | None = None

    def __init__(self, records: RecordStore, owner: str = "the owner", clock: Callable[[], float] = time.time) -> None:
        self.owner = owner
        self.audit = AuditLog(records, clock)
        self.requests = Requests(RowStore(records, "requests"), self.audit, clock)
        self.budget = Budget(self.audit, records, clock)

    def allows(self, release: Release) -> bool:
        """Return False: values leave a node only through its session processes, sealed copies and programs."""
        return False

    def may_read(self, facts: Facts, user: object) -> bool:
        """Return whether a user may read a published object with these facts."""
        if facts.is_derived:
            return False
        if facts.is_public or (facts.owner is not None and facts.owner == user):
            return True
        allowed = facts.allowed_users or ()
        return user in allowed or any(canonical(name) == user for name in allowed)

    def share(
        self, worker: BaseWorker, obj_id: ObjectId, allowed_users: Any = (), public: bool = False, by: object = OWNER
    ) -> Item:
        """Replace the readers of a published object."""
        item = published(worker, obj_id)
        if item is None:
            raise ObjectNotFoundError(obj_id, worker.id, "")
        if item.facts.is_derived:
            raise NotPermittedError("This was computed from data of others, so it can't be shared. Share that data.")
        users = sorted(map(str, map(canonical, users_of(allowed_users))))
        stored: Item = worker.object_store.object_manager.share(obj_id, users, bool(public))
        self.audit.write(by, "share", obj_id, "public" if public else "users", None, " ".join(users))
        return stored
