"""Release policies: the values that an ordinary worker releases to its clients.

`get`, `item`, `float()`, `bool()`, `tolist`, `numpy`, formatting, moving and sharing to other workers, and the text of
errors all ask the policy of the worker. By default everything is released.

A policy is a convenience for workers of your own: it looks at the objects that a call names, not at the data that
these were computed from. A node keeps private data in separate processes instead (see `syft.grid.isolation`).
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from syft.core.labels import any_private, is_private
from syft.exceptions import GetNotPermittedError


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """A value that is about to leave a worker.

    Attributes:
        obj: the object, or an object that the value is computed from; None for the text of an error.
        client: the authenticated id of the client.
        how: the way out (`get`, `move`, `error text`, or the name of a call).
        reason: the reason that the client gave.
        obj_id: the id of the object at the worker, if it has one.
        role: the authenticated role of the client at this worker.
    """

    obj: Any
    client: object
    how: str
    reason: str = ""
    obj_id: Any = None
    role: str = "user"


class ReleasePolicy(Protocol):
    """Decides what leaves a worker."""

    def allows(self, release: Release) -> bool:
        """Return whether this value may leave."""
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


def check_release(worker: Any, session: Any, obj: Any, how: str, reason: str = "", *, obj_id: Any = None) -> None:
    """Raise unless the worker's policy releases this value; the arguments are those of `Release`."""
    if is_private(obj):
        raise GetNotPermittedError(
            f"This tensor is private at worker {worker.id!r} (x.private = True), so it is not released to "
            f"{session.client_id!r} ({how}). The owner can release it to some users: "
            "x.private_tensor(allowed_users=[...])."
        )
    if not may_leave(worker, session, obj, how, reason, obj_id=obj_id):
        raise GetNotPermittedError(
            f"Worker {worker.id!r} does not release this value to {session.client_id!r} ({how}): its policy refuses. "
            "Ask the owner of the worker, or compute something that may be released."
        )


def may_leave(worker: Any, session: Any, obj: Any, how: str, reason: str = "", *, obj_id: Any = None) -> bool:
    """Return the decision of the worker's policy; the arguments are those of `Release`."""
    if is_private(obj):
        return False
    if worker.policy is ALLOW_ALL:
        return True
    return bool(worker.policy.allows(Release(obj, session.client_id, how, reason, obj_id, session.role)))


def releases_all(worker: Any) -> bool:
    """Return whether a worker releases every object to everybody, so that no object needs a check."""
    return worker.policy is ALLOW_ALL and not any_private()


def pay(worker: Any, event: dict[str, Any], what: str) -> bool:
    """Pay for the output of a mechanism of differential privacy, where the worker's policy takes payments.

    Call it when all arguments are checked, and before the first private value is read: a client that can't pay learns
    nothing, and a run that fails later is paid for.

    Args:
        worker: the worker that runs the mechanism.
        event: the mechanism and its settings, in plain values (see `syft.dp.accounting.privacy_loss`).
        what: the name of the call, for the entry in the ledger.

    Returns:
        Whether it is paid for. If not, the policy decides whether the output may leave.

    Raises:
        BudgetExceededError: a limit would be exceeded, or there is none; nothing was charged.
    """
    charge = getattr(worker.policy, "charge_program", None)
    if charge is None:
        return False
    charge(event, what)
    return True
