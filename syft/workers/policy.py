"""What may leave a worker: one check for every path that a value can take.

`get`, `item`, `float()`, `bool()`, `tolist`, `numpy`, formatting, moving to another worker, shapes that tell values and
the text of errors all come through `check_release`. The default of an in-process worker lets everything out: it is a
sandbox.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from syft.exceptions import GetNotPermittedError, RemoteError
from syft.workers.provenance import Failure, Source, rights_of, user_of


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """A value that is about to leave a worker.

    Attributes:
        obj: the object, or what it is computed from.
        client: the id of who asks, as the connection knows it.
        how: the way out (`get`, `move`, `error text`, or the name of a call).
        reason: what the asker wrote.
        obj_id: the id of the object at the worker, if it has one.
        sources: the restricted data sets that the value derives from; None: not known.
        role: what the client is at this worker, as the connection knows it.
        user: whom objects of the client belong to: its id, or its session if it has none.
        changes: whether something is to be changed or deleted, not released.
        probe: whether this is only asked to decide how to go on; nothing leaves by it.
        worker: the worker that holds the object.
    """

    obj: Any
    client: object
    how: str
    reason: str = ""
    obj_id: Any = None
    sources: frozenset[Source] | None = None
    role: str = "user"
    user: object = None
    changes: bool = False
    probe: bool = False
    worker: Any = None


class ReleasePolicy(Protocol):
    """Decides what leaves a worker."""

    def allows(self, release: Release) -> bool:
        """Say whether this value may leave."""
        ...


class AllowAll:
    """Everything leaves: for sandboxes, lessons and tests."""

    def allows(self, release: Release) -> bool:
        """Say yes."""
        return True


class DenyAll:
    """Nothing leaves."""

    def allows(self, release: Release) -> bool:
        """Say no."""
        return False


ALLOW_ALL = AllowAll()
_ASK = 'Ask its owner with ptr.request(reason="..."), or compute something that may be released.'


def check_release(
    worker: Any,
    session: Any,
    obj: Any,
    how: str,
    reason: str = "",
    *,
    obj_id: Any = None,
    sources: frozenset[Source] | None = None,
) -> None:
    """Raise unless the worker's policy lets this value leave.

    Args:
        worker: the worker that holds it.
        session: who asks.
        obj: the object, or what the value is computed from.
        how: the way out.
        reason: what the asker wrote.
        obj_id: the id of the object, if it has one.
        sources: what it derives from, if that is not noted on the object itself.
    """
    if worker.policy is not ALLOW_ALL and not may_leave(
        worker, session, obj, how, reason, obj_id=obj_id, sources=sources
    ):
        explain = getattr(worker.policy, "explain", None)
        why = (explain(session, obj_id) if explain is not None else "") or _ASK
        raise GetNotPermittedError(
            f"Worker {worker.id!r} does not release this value to {session.client_id!r} ({how}). {why}"
        )
    if worker.policy is not ALLOW_ALL:
        refuse_failed(worker, sources if sources is not None or obj is None else rights_of(worker, obj_id, obj).sources)


def refuse_failed(worker: Any, sources: frozenset[Source] | None) -> None:
    """Raise if a value that may leave is none, as a call that it derives from has failed."""
    for source in sources or ():
        if isinstance(source, Failure):
            raise RemoteError(
                f"There is no such value: a call that it derives from failed on worker {worker.id!r}: {source.text}"
            )


def may_leave(
    worker: Any,
    session: Any,
    obj: Any,
    how: str,
    reason: str = "",
    *,
    obj_id: Any = None,
    sources: frozenset[Source] | None = None,
    probe: bool = False,
) -> bool:
    """Ask the worker's policy; the arguments are those of `check_release` and `Release`."""
    if sources is None and obj is not None:
        sources = rights_of(worker, obj_id, obj).sources
    release = Release(
        obj, session.client_id, how, reason, obj_id, sources, session.role, user_of(session), probe=probe, worker=worker
    )
    return bool(worker.policy.allows(release))


def charge(
    worker: Any, session: Any, sources: frozenset[Source], event: dict[str, Any], what: str
) -> frozenset[Source]:
    """Pay for a release that a mechanism of differential privacy is about to make, out of the owners' budgets.

    Call it when all arguments are checked, and before the first private value is read: who can't pay learns nothing,
    and what fails later is paid for.

    Args:
        worker: the worker that holds the data, and runs the mechanism.
        session: who gets the result.
        sources: the data sets that the mechanism protects; what else goes into the result is not paid for.
        event: what the mechanism does, in plain values (see `syft.dp.costs`).
        what: a word for the entry that is made.

    Returns:
        The sources that are paid for: the result does not count as derived from these. Where there is no ledger, and
        for what the client may have anyway, nothing is paid.

    Raises:
        BudgetExceededError: a limit would be passed, or there is none; nothing was charged.
    """
    pay = None if worker.policy is ALLOW_ALL else getattr(worker.policy, "charge", None)
    if pay is None:
        return frozenset()
    paid: frozenset[Source] = pay(worker, session, frozenset(sources), event, what)
    return paid


def check_change(worker: Any, session: Any, obj_id: Any, how: str) -> None:
    """Raise unless a client may change or delete an object: its own it may, others' only if the policy says so."""
    if worker.policy is ALLOW_ALL or worker.object_store.claims.belongs_to(obj_id, session):
        return
    obj = worker.object_store.get(obj_id)
    sources = rights_of(worker, obj_id, obj).sources
    release = Release(
        obj, session.client_id, how, "", obj_id, sources, session.role, user_of(session), changes=True, worker=worker
    )
    if not worker.policy.allows(release):
        raise GetNotPermittedError(
            f"Worker {worker.id!r} does not let {session.client_id!r} touch an object of somebody else ({how}). "
            "Work on a copy of your own: ptr.copy()."
        )
