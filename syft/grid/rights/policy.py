"""NodePolicy: what a node releases to whom. Data is private unless its owner says otherwise, and so is what derives."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from syft.core.id_provider import ObjectId
from syft.dp.books import Books
from syft.exceptions import NotPermittedError
from syft.grid.rights.audit import Audit, AuditLog
from syft.grid.rights.budget import Budget
from syft.grid.rights.grants import Grants, fingerprint
from syft.grid.rights.names import canonical
from syft.grid.rights.records import MemoryRecords, Records
from syft.grid.rights.requests import Requests
from syft.tensors.private import users_of
from syft.workers.policy import Release
from syft.workers.provenance import Failure, Source, rights_of, source_of, user_of

OWNER = "owner"


class NodePolicy:
    """Decides what leaves a node.

    A value may leave for a user if the user was granted this very object; or if each data set that it derives from is
    the user's own, public, names the user, or was granted to the user. Owners of the node get everything. What a
    mechanism of differential privacy releases is paid for out of the data sets' budgets instead (`charge`).

    Args:
        owner: what the owner of the node is called, in texts.
        requests: where requests are kept.
        grants: where grants are kept.
        audit: where decisions are written down.
        books: where privacy budgets are kept.
        clock: gives seconds since 1970.
    """

    # What derives from nothing but what a user sent may leave for that user, whatever else is decided.
    own_is_open = True

    def __init__(
        self,
        owner: str = "the owner",
        requests: Records | None = None,
        grants: Records | None = None,
        audit: Audit | None = None,
        books: Books | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.owner = owner
        self.audit: Audit = audit if audit is not None else AuditLog(clock)
        self.grants = Grants(grants if grants is not None else MemoryRecords(), clock)
        self.requests = Requests(requests if requests is not None else MemoryRecords(), self.grants, self.audit, clock)
        self.budget = Budget(self.audit, books, clock)

    def allows(self, release: Release) -> bool:
        """Say whether a value may leave, and write it down if it is not the asker's own."""
        allowed, request = self._decide(release)
        if not release.probe and release.sources is not None and not self._is_own(release):
            self.audit.write(
                release.client, "change" if release.changes else "release", release.obj_id, release.how, allowed,
                release.reason, request,
            )  # fmt: skip
        return allowed

    def explain(self, session: Any, obj_id: Any) -> str:
        """Say why somebody does not get an object, as far as requests tell; nothing depends on its values."""
        return self.requests.explain(session.client_id, obj_id)

    def _decide(self, release: Release) -> tuple[bool, str]:
        """Return whether a value may leave, and the request that this is due to."""
        if release.role == OWNER:
            return True, ""
        if release.changes or release.sources is None:
            return False, ""
        request = ""
        for source in release.sources:
            opened = self._opens(source, release)
            if opened is None:
                return self._is_granted(release)
            request = opened or request
        return True, request

    def _opens(self, source: Source, release: Release) -> str | None:
        """Return by which request a data set is open to a user ("" for none); None if it is not."""
        user = release.user
        if isinstance(source, Failure):  # who may have the rest is told that it failed
            return ""
        if source.public or (source.owner is not None and source.owner == user) or self._names(source, user):
            return ""
        grant = self.grants.covers_source(user, source)
        return None if grant is None else str(grant["request"])

    def _names(self, source: Source, user: object) -> bool:
        return user in source.allowed_users or any(canonical(name) == user for name in source.allowed_users)

    def _is_granted(self, release: Release) -> tuple[bool, str]:
        """Say whether the very object was granted, with the values that it has now."""
        held = None if release.worker is None else release.worker.object_store.objects.get(release.obj_id)
        if release.obj_id is None or held is None or held is not release.obj or release.probe:
            return False, ""
        rights = rights_of(release.worker, release.obj_id, held)
        if release.sources is None or not release.sources <= rights.sources:  # more than the object goes into it
            return False, ""
        values = functools.partial(fingerprint, release.worker, held)
        grant = self.grants.covers_result(release.user, release.obj_id, rights.mark, values)
        return grant is not None, "" if grant is None else str(grant["request"])

    def _is_own(self, release: Release) -> bool:
        sources = release.sources or ()
        return release.user is not None and all(
            source.owner == release.user for source in sources if not isinstance(source, Failure)
        )

    def charge(
        self, worker: Any, session: Any, sources: frozenset[Source], event: dict[str, Any], what: str
    ) -> frozenset[Source]:
        """Pay for what a mechanism of differential privacy is about to release; see `syft.workers.policy.charge`."""
        release = Release(None, session.client_id, what, role=session.role, user=user_of(session), worker=worker)
        due = frozenset(source for source in sources if self._opens(source, release) is None)
        if session.role == OWNER or not due:
            return frozenset()
        if any(isinstance(source, Failure) or source.id is None for source in sources):
            # One row of it may have come from many people, or one person be in many rows.
            self.audit.write(session.client_id, "charge", None, what, False, "derived data")
            raise NotPermittedError(
                "Differential privacy protects the rows of published data as they are. This is computed from it, or "
                "mixed with what somebody sent, so nobody knows whose its rows are. Use the published data itself."
            )
        self.budget.charge(session.client_id, due, event, what)
        return due

    def share(
        self, worker: Any, obj_id: ObjectId, allowed_users: Any = (), public: bool = False, by: object = OWNER
    ) -> Source:
        """Say who may have a data set, and everything derived from it, from now on.

        Args:
            worker: the worker that holds it.
            obj_id: its id.
            allowed_users: the users who may have it.
            public: whether everybody may have it.
            by: who decides.
        """
        obj = worker.object_store.get(obj_id)
        source = source_of(worker, obj_id, obj)
        if source is None or rights_of(worker, obj_id, obj).owner != source.owner:
            raise NotPermittedError("It derives from other data; who may have it is said of that, or granted.")
        source.allowed_users, source.public = frozenset(map(canonical, users_of(allowed_users))), bool(public)
        keeper = worker.object_store.keeper
        if keeper is not None:
            keeper.touch(obj_id)
        users = " ".join(sorted(map(str, source.allowed_users)))
        self.audit.write(by, "share", obj_id, "public" if public else "users", None, users)
        return source
