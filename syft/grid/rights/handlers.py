"""Access to the policy of a node, and the refusals of workers without an owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syft.exceptions import NotPermittedError, SyftError
from syft.grid.rights.policy import OWNER, NodePolicy
from syft.messaging import message as m
from syft.workers.execution.router import handles
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker


def policy_of(worker: BaseWorker) -> NodePolicy:
    """Return the policy of a node; raise for a worker without an owner."""
    if not isinstance(worker.policy, NodePolicy):
        raise SyftError(f"Worker {worker.id!r} has no owner, so it takes no requests. Only nodes do.")
    return worker.policy


def owners_policy(worker: BaseWorker, session: Session) -> NodePolicy:
    """Return the policy of a node if the session belongs to an owner; raise otherwise."""
    policy = policy_of(worker)
    if session.role != OWNER:
        policy.audit.write(session.client_id, "owner only", allowed=False)
        raise NotPermittedError(f"Only an owner of {worker.id!r} may do this.")
    return policy


def _no_owner(worker: BaseWorker, session: Session, message: object) -> Any:
    """Refuse a message about rights: the session processes of nodes handle these, other workers have no owner."""
    raise SyftError(f"Worker {worker.id!r} has no owner, so it takes no requests. Only nodes do.")


for _kind in (
    m.RequestReleaseMessage,
    m.RequestStatusMessage,
    m.ListRightsMessage,
    m.DecideRequestMessage,
    m.RevokeGrantMessage,
    m.ShareSourceMessage,
):
    handles(_kind)(_no_owner)
